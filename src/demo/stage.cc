#include "demo/stage.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "device/cpu/cpu_device.h"
#include "device/gpu/gpu_device.h"
#include "device/gpu/gpu_list.h"
#include "monitor/open_gpu.h"

namespace spillway::demo {

namespace {

constexpr Bytes kPage = 4 * kKiB;
// A process's own memory on a GPU comes all at once, when it begins to use it; what
// it takes so much later is seen as something of its own.
constexpr Duration kLead = std::chrono::milliseconds(1500);
// Of the part, kept free for who comes: as much as of a card of that size.
constexpr Bytes kReserveShare = 10;

Result<std::unique_ptr<GpuDevice>> OpenGpu(const GpuName& name) {
  GpuDeviceOptions options;
  options.kind = name.kind;
  options.which = name.which;
  return OpenGpuWithin(options);
}

Result<StageGpu> Look(const GpuName& name) {
  const Result<std::unique_ptr<GpuDevice>> gpu = OpenGpu(name);
  if (!gpu) return gpu.error();
  const Result<Reading> reading = (*gpu)->ReadMemory();
  if (!reading) return reading.error();
  return StageGpu{std::string((*gpu)->name()), (*gpu)->model(), reading->free};
}

}  // namespace

Result<StageGpu> FindStageGpu(const std::string& device) {
  if (device != "auto") {
    const std::optional<GpuName> name = ParseGpuName(device);
    if (name) {
      Result<StageGpu> found = Look(*name);
      if (found) return found;
      return Error{found.error().code, fmt::format("{}: {}; without a GPU, \"cpu\" is right",
                                                   device, found.error().message)};
    }
    return Error{Code::kInvalidArgument,
                 fmt::format("a demo can't be played on '{}': right are auto, cpu, cuda, cuda:N, "
                             "hip and hip:N (N: a number, UUID or PCI address)",
                             device)};
  }
  constexpr std::array kKinds = {GpuKind::kCuda, GpuKind::kHip};
  std::string why;
  for (const GpuKind kind : kKinds) {
    Result<StageGpu> found = Look({kind, {}});
    if (found) return found;
    why += fmt::format("{}{}", why.empty() ? "" : "; ", found.error().message);
  }
  return Error{Code::kUnavailable, why};
}

Stage::Stage(std::unique_ptr<Device> device, std::string name, Bytes bytes, bool on_gpu)
    : device_(std::move(device)), name_(std::move(name)), bytes_(bytes), on_gpu_(on_gpu) {}

Stage::~Stage() = default;

Result<std::unique_ptr<Stage>> Stage::OnCard(const std::string& name, Bytes bytes) {
  auto card = CpuDevice::Open({.name = name, .total = bytes, .chunk_bytes = {}});
  if (!card) return card.error();
  const Bytes total = (*card)->total();
  return std::unique_ptr<Stage>(new Stage(std::move(*card), name, total, false));
}

Result<std::unique_ptr<Stage>> Stage::OnGpu(const std::string& device, Bytes bytes) {
  const std::optional<GpuName> name = ParseGpuName(device);
  if (!name) return Error{Code::kInvalidArgument, fmt::format("'{}' is no GPU", device)};
  auto gpu = OpenGpu(*name);
  if (!gpu) return gpu.error();
  const Result<Reading> reading = (*gpu)->ReadMemory();
  if (!reading) return reading.error();
  const std::string model = (*gpu)->model();
  const std::string known(std::string((*gpu)->name()));
  std::unique_ptr<Stage> stage(new Stage(std::move(*gpu), known, bytes, true));
  stage->model_ = model;
  stage->free_before_ = reading->free;
  return stage;
}

void Stage::Tell(Options* options) const {
  if (!on_gpu_) {
    options->card = name_;
    return;
  }
  options->device = name_;
  options->capacity = bytes_;
  options->pressure_source = fmt::format("part:{}", bytes_);
  options->reserve = 0;
  options->reserve_bytes_min = bytes_ / kReserveShare;
}

std::vector<std::string> Stage::Where() const { return {on_gpu_ ? "--device" : "--card", name_}; }

Bytes Stage::BytesFor(double share) const {
  const auto all = static_cast<Bytes>(share * static_cast<double>(bytes_));
  const Bytes less = all - std::min(all, per_process_.value_or(0));
  return std::max(less, all / 8) / kPage * kPage;
}

Duration Stage::lead() const { return on_gpu_ ? kLead : Duration::zero(); }

Status Stage::Around(const std::function<Status()>& start) {
  if (!on_gpu_ || per_process_) return start();
  const Result<Reading> before = device_->ReadMemory();
  if (Status started = start(); !started) return started;
  const Result<Reading> after = device_->ReadMemory();
  if (before && after) per_process_ = before->free - std::min(before->free, after->free);
  return {};
}

std::string Stage::Place() const {
  if (!on_gpu_) {
    return fmt::format("card {}, {} of this machine's memory", name_, FormatBytes(bytes_));
  }
  return fmt::format("{} of {} ({})", FormatBytes(bytes_), name_, model_);
}

std::string Stage::Note() const {
  if (!on_gpu_) return "the card is virtual, RAM of this machine: no GPU is touched";
  const std::string besides =
      per_process_.value_or(0) > 0
          ? fmt::format(" (and {} for each process, by its driver)", FormatBytes(*per_process_))
          : std::string();
  return fmt::format(
      "its card is {} of the {} that are free on {} ({}): with its neighbours it never takes more "
      "than a quarter of them{}",
      FormatBytes(bytes_), FormatBytes(free_before_), name_, model_, besides);
}

}  // namespace spillway::demo
