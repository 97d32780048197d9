#include "demo/options.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/parse.h"
#include "base/run_dir.h"
#include "demo/folder.h"
#include "demo/script.h"
#include "demo/stage.h"
#include "device/cpu/machine_memory.h"

namespace spillway::demo {

namespace {

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

Status CheckCard(Bytes card, bool on_gpu) {
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
  const Bytes in_ram = on_gpu ? below : card + below;
  if (!available || (card + below >= card && in_ram <= *available / 2)) return {};
  return Bad(fmt::format("{}{} below it are more than half of the {} this machine has free",
                         on_gpu ? "" : fmt::format("a card of {} and ", FormatBytes(card)),
                         FormatBytes(below), FormatBytes(*available)));
}

// How much of a GPU is played on, if there is enough to play on.
Result<Bytes> PartOf(const StageGpu& gpu, std::optional<Bytes> asked) {
  const Result<Bytes> usual = DefaultDemoCardBytes(gpu.free);
  if (!usual) return usual.error();
  if (asked && *asked > gpu.free / kGpuShare) {
    return Bad(fmt::format("{} of {} ({}) are more than an eighth of the {} that are free there",
                           FormatBytes(*asked), gpu.name, gpu.model, FormatBytes(gpu.free)));
  }
  if (asked || *usual >= kGpuPartMin) return asked.value_or(*usual);
  return Error{Code::kUnavailable,
               fmt::format("{} ({}) has {} free, and of that, this machine's RAM and its disk the "
                           "demo would use {}: less than {} is no story; --card-size says how much",
                           gpu.name, gpu.model, FormatBytes(gpu.free), FormatBytes(*usual),
                           FormatBytes(kGpuPartMin))};
}

// On a GPU if there is one that will do; an error only where that one was named.
Status ChooseDevice(DemoOptions* options) {
  if (options->device == "cpu") return {};
  const bool named = options->device != "auto";
  const Result<StageGpu> gpu = FindStageGpu(options->device);
  if (!gpu && named) return gpu.error();
  options->device = "cpu";
  if (!gpu) return {};
  const Result<Bytes> part = PartOf(*gpu, options->card_bytes);
  if (part) {
    options->device = gpu->name;
    options->card_bytes = *part;
  } else if (named) {
    return part.error();
  } else {
    options->why_not_gpu = part.error().message;
  }
  return {};
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

Result<Bytes> DefaultDemoCardBytes(std::optional<Bytes> gpu_free) {
  const Result<Bytes> available = AvailableMemory();
  if (!available) return available.error();
  const Bytes disk = DiskRoom().value_or(*available);
  if (gpu_free) {
    const Bytes elsewhere = std::min(*available / 2, disk / 8);  // RAM for a quarter of it.
    return std::min({kGpuPartMax, *gpu_free / kGpuShare, elsewhere}) / kMiB * kMiB;
  }
  return std::min<Bytes>(512 * kMiB, std::min(*available, disk) / 8 / kMiB * kMiB);
}

Result<DemoOptions> CheckDemoOptions(const DemoOptions& asked) {
  DemoOptions options = asked;
  if (options.filled_in) return options;
  if (Status ok = ChooseDevice(&options); !ok) return ok.error();
  if (!options.card_bytes) {
    const Result<Bytes> bytes = DefaultDemoCardBytes();
    if (!bytes) return bytes.error();
    options.card_bytes = *bytes;
  }
  if (Status ok = CheckLength(options.length); !ok) return ok.error();
  if (Status ok = CheckCard(*options.card_bytes, options.device != "cpu"); !ok) return ok.error();
  if (options.http_port == 0) return Bad("the demo is watched by HTTP: --http-port 0 leaves none");
  for (auto& [program, name] :
       {std::pair(&options.daemon, "spillwayd"), std::pair(&options.squeeze, "spillway")}) {
    if (!program->empty()) continue;
    Result<std::string> found = ProgramBeside(name);
    if (!found) return found.error();
    *program = std::move(*found);
  }
  options.filled_in = true;
  return options;
}

}  // namespace spillway::demo
