#include "demo/script.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway::demo {

namespace {

using std::chrono::milliseconds;

// One wave, in thousandths of it. The holds overlap: three neighbours leave
// almost together.
struct Beat {
  int at, hold;
  double to;
};
constexpr int kArrival = 150;
constexpr Beat kWave[] = {
    {250, 160, 0.88},  // PRESSURE
    {300, 110, 0.94},  // CRITICAL
    {350, 60, 0.99},   // EMERGENCY, after the levels between
    {650, 100, 1.10},  // EMERGENCY, at once
};
constexpr Duration kWaveLength = std::chrono::seconds(20);

// Idle limits a thirtieth of the usual; a level must last long enough to be
// seen, and so must a context before it expires.
constexpr int kHaste = 30;
constexpr Duration kDwell = milliseconds(500);
constexpr Duration kTtl = std::chrono::seconds(20);

Duration WaveOf(Duration length) {
  return length / std::max<Duration::rep>(1, length / kWaveLength);
}

}  // namespace

Duration ArrivalFor(Duration length) { return WaveOf(length) * kArrival / 1000; }

std::vector<Visit> VisitsFor(Duration length) {
  const Duration wave = WaveOf(length);
  const Duration::rep waves = length / wave;
  std::vector<Visit> visits;
  for (Duration::rep i = 0; i < waves; ++i) {
    for (const Beat& beat : kWave) {
      visits.push_back({i * wave + wave * beat.at / 1000, wave * beat.hold / 1000, beat.to});
    }
  }
  return visits;
}

Bytes BytesToReach(double to, Bytes total, Bytes free) {
  constexpr Bytes kPage = 4 * kKiB;
  const double bytes = static_cast<double>(free) - (1 - to) * static_cast<double>(total);
  const double most = 0.75 * static_cast<double>(total);
  return std::max(kPage, static_cast<Bytes>(std::clamp(bytes, 0.0, most)) / kPage * kPage);
}

Options DemoCacheOptions(const std::string& card) {
  Options options;
  options.card = card;
  options.idle_normal /= kHaste;
  options.idle_critical /= kHaste;
  options.ttl = kTtl;
  options.dwell = kDwell;
  return options;
}

std::string HasteNote(const Options& options) {
  const Options usual;
  return fmt::format("shorter: idle {}|{} (usual {}|{}), dwell {} ({}), ttl {} ({})",
                     FormatDuration(options.idle_normal), FormatDuration(options.idle_critical),
                     FormatDuration(usual.idle_normal), FormatDuration(usual.idle_critical),
                     FormatDuration(options.dwell), FormatDuration(usual.dwell),
                     FormatDuration(*options.ttl), FormatDuration(*usual.ttl));
}

}  // namespace spillway::demo
