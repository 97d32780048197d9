// SPDX-License-Identifier: Apache-2.0
#include "monitor/psi.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/host_memory.h"
#include "base/printable.h"
#include "base/small_file.h"

namespace spillway {
namespace {

struct Ask {
  std::string_view trigger;  // Stall time and window in microseconds.
  Duration window;
};
constexpr std::array<Ask, 2> kAsks{{{"some 150000 1000000", std::chrono::seconds(1)},
                                    {"some 300000 2000000", std::chrono::seconds(2)}}};

// Sets a trigger; returns 0 or an errno.
int WriteTrigger(int fd, std::string_view trigger) {
  // The kernel overwrites the last byte with an end mark, so send one more.
  const std::string text = std::string(trigger) + '\0';
  return ::write(fd, text.data(), text.size()) < 0 ? errno : 0;
}

Result<std::string> TextOf(const std::string& file) {
  Result<std::optional<std::string>> text = ReadSmallFile(file, kKiB);
  if (!text) return text.error();
  if (*text) return std::move(**text);
  return Error{Code::kUnavailable, fmt::format("{} is not there", Printable(file))};
}

}  // namespace

std::vector<std::string> PsiFiles(const Machine& machine) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& file) {
    if (::access(file.c_str(), R_OK) == 0) files.push_back(file);
  };
  if (const auto own = OwnCgroups(machine.proc, machine.sys)) {
    for (const CgroupHierarchy& hierarchy : *own) {
      if (hierarchy.version == 2) add(hierarchy.mount + hierarchy.path + "/memory.pressure");
    }
  }
  add(machine.proc + "/pressure/memory");
  return files;
}

Result<double> ParseSomeAvg10(std::string_view text) {
  constexpr std::string_view kStart = "some avg10=";
  if (text.starts_with(kStart)) {
    const std::string_view number = text.substr(kStart.size());
    double percent = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), percent);
    const bool ends = end == number.data() + number.size() || *end == ' ';
    if (error == std::errc() && ends && percent >= 0 && percent <= 100) return percent / 100;
  }
  return Error{
      Code::kUnavailable,
      fmt::format("not in the format of PSI ('some avg10=0.00 ...'): '{}'", Printable(text))};
}

Result<std::unique_ptr<PsiTrigger>> PsiTrigger::Open(const std::string& file, const Arm& arm) {
  std::unique_ptr<PsiTrigger> psi(new PsiTrigger(file));
  if (const Result<double> readable = psi->SomeAvg10(); !readable) return readable.error();
  int refused = 0;
  for (const Ask& ask : kAsks) {
    // A descriptor carries one trigger, and after a refusal it may be unusable.
    const int fd = ::open(file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    refused = fd < 0 ? errno : arm ? arm(fd, ask.trigger) : WriteTrigger(fd, ask.trigger);
    if (refused == 0) {
      psi->fd_ = fd;
      psi->window_ = ask.window;
      return psi;
    }
    if (fd >= 0) ::close(fd);
  }
  psi->why_polling_ = fmt::format("{} takes no trigger ({}): only its text can be polled",
                                  Printable(file), std::strerror(refused));
  return psi;
}

PsiTrigger::~PsiTrigger() {
  if (fd_ >= 0) ::close(fd_);
}

Result<double> PsiTrigger::SomeAvg10() const {
  const Result<std::string> text = TextOf(file_);
  if (!text) return Error{text.error().code, "psi: " + text.error().message};
  const Result<double> share = ParseSomeAvg10(*text);
  if (!share) {
    return Error{share.error().code,
                 fmt::format("psi: {}: {}", Printable(file_), share.error().message)};
  }
  return *share;
}

}  // namespace spillway
