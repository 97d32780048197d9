// Where a demo plays: a virtual card of its own, or a part of a GPU. There it
// keeps to a small part, and who plays along does, too: an eighth of what is free
// is ours at most, and with its neighbours no more than a quarter.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

// A GPU as it was found.
struct StageGpu {
  std::string name;   // "cuda:0"
  std::string model;  // "NVIDIA H200"
  Bytes free = 0;
};

inline constexpr Bytes kGpuPartMax = 4 * kGiB;
// Less is no story beside what a driver takes for each process.
inline constexpr Bytes kGpuPartMin = 512 * kMiB;
inline constexpr Bytes kGpuShare = 8;  // The part of what is free that ours may be.

// The GPU of that name; "auto": the first that any driver here knows. Unavailable:
// there is none, or it does not answer, and why. It is opened for a moment.
Result<StageGpu> FindStageGpu(const std::string& device);

class Stage {
 public:
  // A virtual card. Whoever opens it first sizes it; the daemon and the neighbours
  // then take it as it is.
  static Result<std::unique_ptr<Stage>> OnCard(const std::string& name, Bytes bytes);
  static Result<std::unique_ptr<Stage>> OnGpu(const std::string& device, Bytes bytes);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Bytes bytes() const { return bytes_; }
  bool on_gpu() const { return on_gpu_; }
  std::string_view name() const { return name_; }  // "demo-4711", "cuda:0"
  // What a cache must be told to play on it.
  void Tell(Options* options) const;
  // How `spillway squeeze` is told: "--card demo-4711".
  std::vector<std::string> Where() const;

  // A neighbour that shall have a share of it: what it takes, besides what a driver
  // takes for each process; and how long before that it comes.
  Bytes BytesFor(double share) const;
  Duration lead() const;
  // Runs `start`, which is to begin a process that uses the GPU and takes nothing
  // yet: what is gone then is what a driver takes for each.
  Status Around(const std::function<Status()>& start);

  // "card demo-4711, 512 MiB of this machine's memory"
  std::string Place() const;
  // For who wonders what is used of the machine.
  std::string Note() const;

 private:
  Stage(std::unique_ptr<Device> device, std::string name, Bytes bytes, bool on_gpu);

  const std::unique_ptr<Device> device_;  // Takes nothing of it.
  const std::string name_;
  const Bytes bytes_;
  const bool on_gpu_;
  std::string model_;
  Bytes free_before_ = 0;
  std::optional<Bytes> per_process_;
};

}  // namespace spillway::demo
