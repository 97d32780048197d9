#include "demo/options.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/run_dir.h"
#include "demo/folder.h"
#include "demo/script.h"
#include "device/cpu/machine_memory.h"

namespace spillway::demo {

namespace {

Error Bad(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

Status CheckLength(Duration length) {
  if (length >= kDemoLengthMin && length <= kDemoLengthMax) return {};
  return Bad(fmt::format("a demo of {} can't be played: from {} to {} is right",
                         FormatDuration(length), FormatDuration(kDemoLengthMin),
                         FormatDuration(kDemoLengthMax)));
}

// Free where the demo's disk tier would be; nothing: that can't be told.
std::optional<Bytes> DiskRoom() {
  const Result<std::string> run_dir = RunDir();
  if (!run_dir) return std::nullopt;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(DemoDiskBase(*run_dir), error);
  if (error) return std::nullopt;
  return space.available;
}

Status CheckCard(Bytes card) {
  if (card < kDemoCardMin) {
    return Bad(fmt::format("a card of {} is too small: at least {}", FormatBytes(card),
                           FormatBytes(kDemoCardMin)));
  }
  // Agents and neighbours together fill the card with real memory, and copies of
  // what is on it lie below, in RAM and on disk.
  if (const std::optional<Bytes> room = DiskRoom(); room && DemoDiskBytes(card) > *room / 2) {
    return Bad(fmt::format("{} on disk are more than half of the {} free there",
                           FormatBytes(DemoDiskBytes(card)), FormatBytes(*room)));
  }
  const Result<Bytes> available = AvailableMemory();
  const Bytes below = DemoBelowBytes(card);
  if (!available || (card + below >= card && card + below <= *available / 2)) return {};
  return Bad(
      fmt::format("a card of {} and {} below it are more than half of the {} this machine has free",
                  FormatBytes(card), FormatBytes(below), FormatBytes(*available)));
}

Result<std::string> ProgramBeside(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error{Code::kUnavailable, "/proc/self/exe: " + error.message()};
  const std::string path = self.parent_path() / name;
  if (::access(path.c_str(), X_OK) == 0) return path;
  return Error{Code::kUnavailable,
               fmt::format("the demo needs the program {} beside {}, and it is not there; `make` "
                           "builds both, `make install` installs both",
                           name, self.string())};
}

}  // namespace

Result<Bytes> DefaultDemoCardBytes() {
  const Result<Bytes> available = AvailableMemory();
  if (!available) return available.error();
  const Bytes disk = DiskRoom().value_or(*available);
  return std::min<Bytes>(512 * kMiB, std::min(*available, disk) / 8 / kMiB * kMiB);
}

Result<DemoOptions> CheckDemoOptions(const DemoOptions& asked) {
  DemoOptions options = asked;
  if (!options.card_bytes) {
    const Result<Bytes> bytes = DefaultDemoCardBytes();
    if (!bytes) return bytes.error();
    options.card_bytes = *bytes;
  }
  if (Status ok = CheckLength(options.length); !ok) return ok.error();
  if (Status ok = CheckCard(*options.card_bytes); !ok) return ok.error();
  if (options.http_port == 0) return Bad("the demo is watched by HTTP: --http-port 0 leaves none");
  for (auto& [program, name] :
       {std::pair(&options.daemon, "spillwayd"), std::pair(&options.squeeze, "spillway")}) {
    if (!program->empty()) continue;
    Result<std::string> found = ProgramBeside(name);
    if (!found) return found.error();
    *program = std::move(*found);
  }
  return options;
}

}  // namespace spillway::demo
