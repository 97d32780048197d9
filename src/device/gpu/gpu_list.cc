// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "base/small_file.h"

namespace spillway {

namespace {

std::string UuidText(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// Whether `which` is the GPU's number, UUID, the beginning of its UUID, or PCI address.
bool IsNamed(const GpuFacts& gpu, std::string_view which) {
  if (which.empty()) return true;
  int number = 0;
  const char* const first = which.data();
  const char* const last = first + which.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error == std::errc() && end == last) return number == gpu.ordinal;
  const std::string wanted = Lower(which);
  const std::string uuid = Lower(gpu.uuid);
  return uuid.starts_with(wanted) || uuid == "gpu-" + wanted || Lower(gpu.pci) == wanted;
}

// Returns the version after "Kernel Module" in the driver's version file.
std::string NvidiaModule(std::string_view text) {
  constexpr std::string_view kBefore = "Kernel Module";
  const std::size_t at = text.find(kBefore);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + kBefore.size());
  // An open module says "Kernel Module for x86_64  580.65.06".
  while (!text.empty() && text.front() != '\n') {
    const std::size_t from = text.find_first_not_of(' ');
    if (from == std::string_view::npos) return {};
    text.remove_prefix(from);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
      return std::string(word);
    }
    text.remove_prefix(word.size());
  }
  return {};
}

std::string TextOf(const std::string& path) {
  const Result<std::optional<std::string>> text = ReadSmallFile(path);
  return text && *text ? **text : std::string();
}

}  // namespace

Result<std::vector<GpuFacts>> ListGpus(const GpuDriver& driver) {
  int count = 0;
  if (const int code = driver.device_count(&count); code != 0) {
    return driver.Failed("counting devices", code);
  }
  std::vector<GpuFacts> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    GpuFacts gpu;
    std::array<unsigned char, 16> uuid{};
    std::array<char, 32> pci{};
    std::array<char, 128> model{};
    if (driver.device_get(&gpu.device, ordinal) != 0) continue;
    if (driver.uuid(uuid.data(), gpu.device) != 0) continue;
    driver.pci_bus_id(pci.data(), static_cast<int>(pci.size()), gpu.device);
    driver.device_name(model.data(), static_cast<int>(model.size()), gpu.device);
    pci.back() = model.back() = '\0';
    gpu.ordinal = ordinal;
    gpu.name = fmt::format("{}:{}", Name(driver.kind), ordinal);
    gpu.uuid = UuidText(uuid);
    gpu.pci = pci.data();
    gpu.model = model.data();
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<GpuFacts> FindGpu(const GpuDriver& driver, std::string_view which) {
  Result<std::vector<GpuFacts>> gpus = ListGpus(driver);
  if (!gpus) return gpus.error();
  if (gpus->empty()) {
    return Error{Code::kUnavailable, fmt::format("{} knows no device", driver.library)};
  }
  std::vector<std::string> seen;
  for (GpuFacts& gpu : *gpus) {
    if (IsNamed(gpu, which)) return std::move(gpu);
    seen.push_back(fmt::format("{} ({})", gpu.ordinal, gpu.uuid));
  }
  return Error{Code::kUnavailable, fmt::format("{} has no device '{}'; it has {}", driver.library,
                                               Printable(which), fmt::join(seen, ", "))};
}

std::optional<GpuName> ParseGpuName(std::string_view device) {
  for (const GpuKind kind : {GpuKind::kCuda, GpuKind::kHip}) {
    if (device == Name(kind)) return GpuName{kind, {}};
    if (device.starts_with(Name(kind)) && device.size() > Name(kind).size() + 1 &&
        device[Name(kind).size()] == ':') {
      return GpuName{kind, std::string(device.substr(Name(kind).size() + 1))};
    }
  }
  return std::nullopt;
}

std::string VersionText(const GpuDriver& driver, const std::string& proc, const std::string& sys) {
  std::string module;
  if (driver.kind == GpuKind::kCuda) {
    module = NvidiaModule(TextOf(proc + "/driver/nvidia/version"));
  } else {
    module = TextOf(sys + "/module/amdgpu/version");
    // The amdgpu module of the kernel itself has only the kernel's version.
    if (module.empty()) module = TextOf(proc + "/sys/kernel/osrelease");
    module = module.substr(0, module.find('\n'));
  }
  return module.empty() ? fmt::format("{}", driver.version)
                        : fmt::format("{}-{}", driver.version, module);
}

}  // namespace spillway
