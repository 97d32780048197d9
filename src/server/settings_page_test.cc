// docs/reference/daemon-settings.md is written from the table, and a test holds it
// to that. SPILLWAY_WRITE_PAGES=1 writes it anew.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "server/settings.h"

namespace spillway::server {
namespace {

TEST(DaemonSettingsPage, IsCurrent) {
  const char* const path = "docs/reference/daemon-settings.md";
  if (std::getenv("SPILLWAY_WRITE_PAGES") != nullptr) std::ofstream(path) << DaemonSettingsPage();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), DaemonSettingsPage()) << "SPILLWAY_WRITE_PAGES=1 writes it anew";
}

}  // namespace
}  // namespace spillway::server
