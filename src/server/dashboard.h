// The dashboard's files, as they were built into the program from web/. Where that
// could not be done there is one: a page that says so, and why. They are made by
// tools/web_build.sh.
#pragma once

#include <span>

#include "http/files.h"

namespace spillway::server {

std::span<const http::File> DashboardFiles();

}  // namespace spillway::server
