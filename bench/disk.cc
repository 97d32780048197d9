// SPDX-License-Identifier: Apache-2.0
// The disk tier beside a raw O_DIRECT io_uring loop on the same file system, in one run: entries of
// 1, 4 and 64 MiB, written and read by the same number of threads. Both sides end with a sync. The
// tier checksums what it writes and verifies what it reads; the raw loop only moves bytes.
// docs/bench.md explains the figures. SPILLWAY_BENCH_DIR names a directory on the disk to be
// measured.
#include <fcntl.h>
#include <liburing.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "bench/support/scratch.h"
#include "bench/support/workload.h"
#include "tier/disk/aligned_buffer.h"
#include "tier/disk/disk_store.h"

namespace spillway::bench {
namespace {

constexpr Bytes kRawBlock = kMiB;

struct Shape {
  Bytes entry = 0;
  int threads = 2;
  Bytes total = kGiB;
  int rounds = 7;

  std::size_t PerThread() const {
    return static_cast<std::size_t>(total / entry) / static_cast<std::size_t>(threads);
  }
};

[[noreturn]] void Stop(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

double ProcessCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Rate {
  double bytes_per_second = 0;
  double cores = 0;
};

Rate Measure(const Shape& shape, const std::function<void(int)>& each,
             const std::function<void()>& finish) {
  const double cpu = ProcessCpuSeconds();
  const double begin = Now();
  std::vector<std::thread> others;
  for (int thread = 1; thread < shape.threads; ++thread) others.emplace_back(each, thread);
  each(0);
  for (std::thread& other : others) other.join();
  finish();
  const double wall = Now() - begin;
  const auto moved = static_cast<double>(shape.PerThread() * shape.entry) * shape.threads;
  return {moved / wall, (ProcessCpuSeconds() - cpu) / wall};
}

// Memory to copy from and to: more than the processor's caches hold.
class Memory {
 public:
  Memory(const Shape& shape, std::uint64_t seed) : entry_(shape.entry) {
    const std::size_t count = std::max<std::size_t>(1, 64 * kMiB / entry_);
    Random random(seed);
    for (std::size_t i = 0; i < count; ++i) {
      buffers_.emplace_back(entry_);
      auto* words = reinterpret_cast<std::uint64_t*>(buffers_.back().data());
      for (Bytes at = 0; at < entry_ / sizeof *words; ++at) words[at] = random.Next();
    }
  }
  std::byte* Of(std::size_t i) const { return buffers_[i % buffers_.size()].data(); }

 private:
  const Bytes entry_;
  std::vector<AlignedBuffer> buffers_;
};
using Memories = std::vector<Memory>;  // One for each thread.

// The peer: blocks of 1 MiB, always as many in flight as the tier has pieces in flight.
class RawLoop {
 public:
  RawLoop(const std::string& path, const Shape& shape) : shape_(shape) {
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (file_ < 0) Stop(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    if (::fallocate(file_, 0, 0, static_cast<off_t>(shape.total)) != 0) Stop("no space for raw");
  }
  ~RawLoop() { ::close(file_); }

  Rate Run(bool write, const Memories& memories) {
    return Measure(
        shape_,
        [&](int thread) { Thread(thread, write, memories[static_cast<std::size_t>(thread)]); },
        [&] {
          if (write && ::fdatasync(file_) != 0) Stop("raw: fdatasync failed");
        });
  }

 private:
  void Thread(int thread, bool write, const Memory& memory) {
    io_uring ring;
    if (io_uring_queue_init(Files::kDepth, &ring, 0) != 0) Stop("raw: no io_uring");
    const Bytes per_entry = shape_.entry / kRawBlock;
    const Bytes blocks = shape_.PerThread() * per_entry;
    const Bytes base = static_cast<Bytes>(thread) * blocks * kRawBlock;
    Bytes started = 0;
    for (Bytes done = 0; done < blocks;) {
      while (started < blocks && started - done < Files::kDepth) {
        std::byte* data = memory.Of(started / per_entry) + started % per_entry * kRawBlock;
        io_uring_sqe* entry = io_uring_get_sqe(&ring);
        const Bytes at = base + started * kRawBlock;
        if (write) {
          io_uring_prep_write(entry, file_, data, kRawBlock, at);
        } else {
          io_uring_prep_read(entry, file_, data, kRawBlock, at);
        }
        ++started;
      }
      io_uring_submit_and_wait(&ring, 1);
      io_uring_cqe* entry = nullptr;
      while (io_uring_peek_cqe(&ring, &entry) == 0) {
        if (entry->res != static_cast<int>(kRawBlock)) Stop("raw: a transfer failed");
        io_uring_cqe_seen(&ring, entry);
        ++done;
      }
    }
    io_uring_queue_exit(&ring);
  }

  const Shape shape_;
  int file_ = -1;
};

class OurLoop {
 public:
  OurLoop(const std::string& directory, const Shape& shape)
      : shape_(shape), blobs_(static_cast<std::size_t>(shape.threads)) {
    DiskOptions options;
    options.directory = directory;
    options.quota = shape.total + shape.total / 64 + 16 * kMiB;
    options.min_free = 0;
    auto opened = DiskStore::Open(options);
    if (!opened) Stop(opened.error().message);
    store_ = std::move(*opened);
    store_->StartLoading([](std::vector<BlobStore::Found>, bool) {});
    while (store_->health() == BlobStore::Health::kLoading) std::this_thread::yield();
  }

  Rate Write(const Memories& memories) {
    return Measure(
        shape_,
        [&](int thread) {
          auto& blobs = blobs_[static_cast<std::size_t>(thread)];
          for (std::size_t i = 0; i < shape_.PerThread(); ++i) {
            BlobFacts facts;
            facts.key = fmt::format("bench/{}/{}", thread, i);
            facts.size = shape_.entry;
            facts.generation = i + 1;
            const Source source(memories[static_cast<std::size_t>(thread)].Of(i), facts.size);
            const auto id = store_->Allocate(facts);
            if (!id) Stop(id.error().message);
            const Status status = store_->Write(*id, facts, Seal(), source, nullptr);
            if (!status) Stop(status.error().message);
            blobs.emplace_back(*id, std::move(facts));
          }
        },
        [&] {
          if (!store_->Sync()) Stop("ours: sync failed");
        });
  }
  Rate Read(const Memories& memories) {
    return Measure(
        shape_,
        [&](int thread) {
          const auto& blobs = blobs_[static_cast<std::size_t>(thread)];
          for (std::size_t i = 0; i < blobs.size(); ++i) {
            std::byte* to = memories[static_cast<std::size_t>(thread)].Of(i);
            const Status status =
                store_->Read(blobs[i].first, blobs[i].second, to, nullptr, nullptr);
            if (!status) Stop(status.error().message);
          }
        },
        [] {});
  }
  void Clear() {
    for (auto& blobs : blobs_) {
      for (const auto& [id, facts] : blobs) store_->Free(id);
      blobs.clear();
    }
  }
  BlobStoreStats stats() const { return store_->stats(); }

 private:
  const Shape shape_;
  std::unique_ptr<DiskStore> store_;
  std::vector<std::vector<std::pair<BlobId, BlobFacts>>> blobs_;
};

struct Samples {
  std::vector<double> rate;
  std::vector<double> cores;
  void Add(const Rate& one) {
    rate.push_back(one.bytes_per_second);
    cores.push_back(one.cores);
  }
};

void PrintRow(const Shape& shape, const char* way, const Samples& raw, const Samples& ours,
              Report* report) {
  const double ratio = MedianRatio(ours.rate, raw.rate);
  const auto gib = [](const Samples& side) {
    return fmt::format("{:.2f}", Median(side.rate) / static_cast<double>(kGiB));
  };
  report->Row({fmt::format("{} MiB", shape.entry / kMiB), way, std::to_string(shape.threads),
               gib(raw), gib(ours), fmt::format("{:.2f}", ratio),
               fmt::format("{:.2f}", Median(raw.cores)),
               fmt::format("{:.2f}", Median(ours.cores))});
  report->data()["disk"].push_back({{"entry", shape.entry},
                                    {"way", way},
                                    {"threads", shape.threads},
                                    {"raw", raw.rate},
                                    {"ours", ours.rate}});
  report->Add({fmt::format("disk, {} of {} MiB against raw O_DIRECT", way, shape.entry / kMiB),
               ratio, 0.8, 0.9, true, "x"});
}

void MeasureShape(const Shape& shape, const std::string& root, Report* report) {
  Memories from;
  Memories to;
  for (int thread = 0; thread < shape.threads; ++thread) {
    from.emplace_back(shape, static_cast<std::uint64_t>(thread) + 1);
    to.emplace_back(shape, 99);
  }
  Samples raw_write;
  Samples raw_read;
  Samples our_write;
  Samples our_read;
  {
    RawLoop raw(root + "/raw", shape);
    OurLoop ours(root + "/store", shape);
    for (int round = -1; round < shape.rounds; ++round) {
      const Rate rates[] = {raw.Run(true, from), ours.Write(from), raw.Run(false, to),
                            ours.Read(to)};
      ours.Clear();
      if (round < 0) continue;  // From here on the space of both files has been written once.
      raw_write.Add(rates[0]);
      our_write.Add(rates[1]);
      raw_read.Add(rates[2]);
      our_read.Add(rates[3]);
    }
    if (!ours.stats().direct) report->Note("no O_DIRECT here: this measures the page cache");
  }
  PrintRow(shape, "write", raw_write, our_write, report);
  PrintRow(shape, "read", raw_read, our_read, report);
  std::filesystem::remove_all(root + "/store");
  std::filesystem::remove(root + "/raw");
}

void MeasureDisk(const Settings& settings, Report* report) {
  const Scratch scratch;
  const std::string root = scratch.path();
  report->Table(
      fmt::format("disk: {} of entries a round in {}, both sides synced at the end, "
                  "checksums made and verified on our side",
                  settings.quick ? "128 MiB" : "1 GiB", root),
      {"entry", "way", "threads", "raw GiB/s", "ours GiB/s", "x raw", "raw cores", "our cores"});
  for (const Bytes entry : {kMiB, 4 * kMiB, 64 * kMiB}) {
    // A small entry is one piece, so it takes more threads to keep a disk busy.
    Shape shape{entry, entry == kMiB ? 4 : 2};
    if (settings.quick) {
      shape.total = 128 * kMiB;
      shape.rounds = 3;
    }
    MeasureShape(shape, root, report);
  }
  // One long context, with a reader waiting for it.
  const Bytes large = settings.quick ? 256 * kMiB : kGiB;
  MeasureShape({large, 1, large, settings.quick ? 3 : 7}, root, report);
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  using namespace spillway::bench;
  const Settings settings =
      ParseArguments(argc, argv, "Measures the disk tier beside raw O_DIRECT: disk.");
  Report report(settings);
  report.Begin("disk");
  if (settings.Runs("disk")) MeasureDisk(settings, &report);
  report.End();
  return 0;
}
