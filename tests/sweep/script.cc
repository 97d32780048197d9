// SPDX-License-Identifier: Apache-2.0
#include "sweep/script.h"

#include <dirent.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "cache/core.h"
#include "cache/parts.h"
#include "spillway/cache.h"
#include "spillway/testing.h"
#include "sweep/failing_device.h"
#include "sweep/failing_new.h"
#include "tier/disk/testing/faulty_files.h"

namespace spillway::sweep {

namespace {

std::string ValueOf(const std::string& key, unsigned version, std::size_t bytes) {
  std::string value(bytes, '\0');
  std::uint64_t state = 0x9e3779b97f4a7c15ULL * (version + 1);
  for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  for (std::size_t at = 0; at < bytes; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(value.data() + at, &state, std::min(sizeof state, bytes - at));
  }
  return value;
}

// Waits until `holds` returns true; false: not in 20 s, which even a busy machine
// meets.
template <typename Holds>
bool Eventually(std::chrono::milliseconds between, Holds&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(between);
  }
  return true;
}

int OpenDescriptors() {
  int count = 0;
  DIR* const dir = ::opendir("/proc/self/fd");
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

// All faults of this run, counted over everything that is opened in it.
class Faults {
 public:
  explicit Faults(const Fault& fault) : fault_(fault) {
    files_ = std::make_shared<testing::FaultyFiles>(RealFiles());
    files_->SetScript([this](testing::FileCall, std::uint64_t, int) {
      if (fault_.kind == Kind::kFileIo) return Fails() ? EIO : 0;
      if (fault_.kind == Kind::kFileFull) return Fails() ? ENOSPC : 0;
      return 0;
    });
  }

  Seams seams() {
    return {files_, [this](std::shared_ptr<Device> device) {
              return std::make_shared<FailingDevice>(
                  std::move(device), [this] { return fault_.kind == Kind::kMap && Fails(); });
            }};
  }
  void Begin() {
    if (fault_.kind == Kind::kNew) FailNewAt(fault_.number, fault_.for_good);
  }
  void Heal() {
    healed_ = true;
    HealNew();
  }
  std::uint64_t calls() const { return fault_.kind == Kind::kNew ? CountedNews() : calls_.load(); }
  bool is_healed() const { return healed_; }

 private:
  bool Fails() {
    if (healed_) return false;
    const std::uint64_t number = calls_++;
    return number == fault_.number || (fault_.for_good && number > fault_.number);
  }

  const Fault fault_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> healed_{false};
  std::shared_ptr<testing::FaultyFiles> files_;
};

class Run {
 public:
  Run(std::string dir, const Fault& fault) : dir_(std::move(dir)), fault_(fault), faults_(fault) {}

  Verdict Go() {
    faults_.Begin();
    if (Open()) Work();
    Close();
    if (Open()) {
      ReadAll(true);
      Set("again", 40'000);
    }
    Close();
    verdict_.calls = faults_.calls();
    faults_.Heal();
    if (Open()) {
      verdict_.found = ReadAll(true);
      // On a busy machine samples are late, and a tier without one does not grow.
      const bool taken = Eventually(std::chrono::milliseconds(5), [&] {
        Set("healed", 40'000);
        return Get("healed") == 1;
      });
      if (!taken) Lost("a healed cache does not take a value");
      ClearAll();
    } else {
      Lost("a healed cache does not open");
    }
    Close();
    return verdict_;
  }

 private:
  struct Known {
    unsigned version = 0;  // 0: it is not there.
    unsigned last = 0;     // Ever tried.
    std::size_t bytes = 0;
    std::map<unsigned, std::size_t> sizes;
    bool told = false;  // Since the last write: told that an older value may come back.
  };

  void Lost(const char* what) {
    ++verdict_.lost;
    std::fprintf(stderr, "sweep: %s\n", what);
  }

  // Makes a call into the product. `escaped` counts the exceptions it throws.
  template <typename Call>
  bool Into(std::uint64_t* escaped, Call&& call) {
    try {
      const Counted counted;
      call();
      return true;
    } catch (const std::bad_alloc&) {
      ++*escaped;
      return false;
    }
  }

  bool Open() {
    Options options;
    options.capacity = kMiB;
    options.host_capacity = 2 * kMiB;
    options.disk_dir = dir_;
    options.disk_capacity = 16 * kMiB;
    options.write_back_after = Duration::zero();
    options.write_back_rate.reset();
    options.sample_period = std::chrono::milliseconds(2);
    options.room_wait = std::chrono::milliseconds(100);
    options.entries_max = 4096;
    options.pressure = device_pressure_;
    options.host_pressure = host_pressure_;
    options.disk_pressure = disk_pressure_;
    const Seams seams = faults_.seams();
    std::string why;
    // As Cache::Open, which returns NoMemory where this throws.
    Into(&verdict_.thrown, [&] {
      auto parts = OpenParts(options, seams);
      if (!parts) return;
      auto core = Core::Open(options, std::move(*parts));
      if (!core) return;
      cache_ = Core::Wrap(std::move(*core));
    });
    if (cache_ == nullptr) return false;
    Into(&verdict_.thrown, [&] { (void)cache_->Start(); });
    return true;
  }

  void Close() {
    if (cache_ == nullptr) return;
    Status closed;
    Into(&verdict_.escaped, [&] { closed = Cache::Close(std::move(cache_)); });
    if (closed) return;
    for (auto& [key, known] : known_) known.told = true;
  }

  void Set(const std::string& key, std::size_t bytes) {
    Known& known = known_[key];
    const unsigned version = ++known.last;
    known.sizes[version] = bytes;
    const std::string value = ValueOf(key, version, bytes);
    SetOptions options;
    options.tokens = version;
    if (bytes % 2 == 0) options.agent = "an agent with a name of some length";
    if (bytes % 3 == 0) options.ttl = std::chrono::hours(1);
    bool set = false;
    Into(&verdict_.escaped, [&] { set = cache_->Set(key, Source(value), options).has_value(); });
    if (!set) return;
    known.version = version;
    known.told = false;
  }

  // 1: a hit; 0: a miss; -1: an error.
  int Get(const std::string& key, bool reopened = false) {
    int answer = -1;
    Into(&verdict_.escaped, [&] {
      auto got = cache_->Get(key, {.wait = std::chrono::seconds(5)});
      const Exempt exempt;
      if (!got) return;
      answer = *got ? 1 : 0;
      if (!*got) return;
      Known& known = known_[key];
      const auto version = static_cast<unsigned>((*got)->tokens());
      const auto size = known.sizes.find(version);
      if (size == known.sizes.end() || (*got)->text() != ValueOf(key, version, size->second)) {
        ++verdict_.wrong;
        std::fprintf(stderr, "sweep: %s version %u: wrong bytes\n", key.c_str(), version);
      } else if (version != known.version) {
        ++(!reopened ? verdict_.wrong : known.told ? verdict_.stale_told : verdict_.stale);
        std::fprintf(stderr, "sweep: %s version %u, where %u was set last%s\n", key.c_str(),
                     version, known.version, known.told ? "; its writer knows" : "");
        known.version = version;
      }
    });
    return answer;
  }

  // Whatever the call returns, the leases it gave are valid and are released.
  void GetSeveral() {
    const std::vector<std::string_view> keys = {"key1", "key5", "key6", "key16"};
    std::vector<Lease> leases(keys.size());
    Into(&verdict_.thrown, [&] { cache_->GetMany(keys.data(), keys.size(), leases.data()); });
    std::vector<Lease> chain;
    Into(&verdict_.thrown, [&] { chain = cache_->GetChain(keys); });
    for (std::vector<Lease>* some : {&leases, &chain}) {
      for (std::size_t i = 0; i < some->size(); ++i) {
        const Lease& lease = (*some)[i];
        if (!lease) continue;
        const std::string key(keys[i]);
        const auto version = static_cast<unsigned>(lease.tokens());
        if (lease.text() == ValueOf(key, version, known_[key].sizes[version])) continue;
        ++verdict_.wrong;
        std::fprintf(stderr, "sweep: %s version %u: wrong bytes\n", key.c_str(), version);
      }
    }
  }

  void Erase(const std::string& key) {
    Into(&verdict_.thrown, [&] {
      cache_->Erase(key);
      known_[key].version = 0;
      known_[key].told = false;
    });
  }

  // Returns how many values are there.
  std::uint64_t ReadAll(bool reopened) {
    std::uint64_t found = 0;
    for (const auto& [key, known] : known_) found += Get(key, reopened) == 1 ? 1 : 0;
    return found;
  }

  // Gives transfers some time.
  void Rest(int looks) {
    for (int i = 0; i < looks; ++i) {
      bool idle = false;
      Into(&verdict_.thrown, [&] {
        const Stats stats = cache_->stats();
        idle = stats.moves.in_flight == 0 && stats.host.bytes == stats.host.clean &&
               stats.device.bytes == stats.device.clean;
      });
      if (idle) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void Work() {
    const std::size_t sizes[] = {1, 100, 3000, 5000, 20'001, 64 * kKiB, 100'000, 200'000};
    for (int i = 0; i < 12; ++i) Set("key" + std::to_string(i), sizes[i % 8]);
    Set("a key that is too long for its slot", 5001);
    ReadAll(false);
    Rest(20);
    Set("key1", 400);
    Set("key5", 50'000);
    Erase("key2");
    Erase("key7");
    Get("key2");
    std::optional<Lease> held;
    Into(&verdict_.escaped, [&] {
      auto got = cache_->Get("key6");
      if (got && *got) held = std::move(**got);
    });
    Set("key6", 90'000);
    device_pressure_->Set(0.93);
    Into(&verdict_.thrown, [&] { cache_->Apply(0.93); });
    for (int i = 16; i < 24; ++i) Set("key" + std::to_string(i), 200'000);
    Into(&verdict_.thrown, [&] { cache_->Reclaim(512 * kKiB, std::chrono::milliseconds(50)); });
    device_pressure_->Set(0.97);
    Into(&verdict_.thrown, [&] { cache_->Apply(0.97); });
    Set("key28", 10'000);
    device_pressure_->Set(0.1);
    Into(&verdict_.thrown, [&] { cache_->Apply(0.1); });
    Rest(20);
    const std::string_view wanted[] = {"key0", "key3", "key16", "key17"};
    Into(&verdict_.thrown, [&] { cache_->Prefetch(wanted, 4); });
    GetSeveral();
    ReadAll(false);
    Batch();
    Into(&verdict_.thrown, [&] { (void)cache_->Explain("key3"); });
    if (held && held->text() != ValueOf("key6", 1, 100'000)) ++verdict_.wrong;
    held.reset();
    Rest(20);
  }

  void Batch() {
    const std::string value = ValueOf("batch", 1, 30'000);
    known_["batch"].sizes[1] = value.size();
    known_["batch"].last = 1;
    Operation operations[3];
    operations[0].kind = Operation::Kind::kSet;
    operations[0].key = "batch";
    operations[0].source = Source(value);
    operations[0].set.tokens = 1;
    operations[1].kind = Operation::Kind::kGet;
    operations[1].key = "key9";
    operations[2].kind = Operation::Kind::kErase;
    operations[2].key = "key10";
    std::atomic<bool> done{false};
    const bool begun = Into(&verdict_.escaped, [&] {
      cache_->Submit(operations, 3, std::chrono::seconds(5), Completion([&] {
                       done = true;
                       done.notify_one();
                     }));
    });
    if (!begun) return;
    done.wait(false);
    if (operations[0].status) known_["batch"].version = 1;
    if (operations[2].status) known_["key10"].version = 0;
  }

  void ClearAll() {
    cache_->Clear();
    Stats stats;
    (void)Eventually(std::chrono::milliseconds(1), [&] {
      stats = cache_->stats();
      return stats.device.bytes + stats.host.bytes + stats.disk.bytes + stats.moves.in_flight == 0;
    });
    const Bytes left = stats.device.bytes + stats.host.bytes + stats.disk.bytes;
    if (left > 0 || stats.leases > 0 || stats.reservations > 0 || stats.entries > 0) {
      ++verdict_.left;
      std::fprintf(stderr, "sweep: after Clear %zu bytes, %zu leases, %zu reservations are left\n",
                   static_cast<std::size_t>(left), static_cast<std::size_t>(stats.leases),
                   static_cast<std::size_t>(stats.reservations));
    }
  }

  const std::string dir_;
  const Fault fault_;
  Faults faults_;
  std::shared_ptr<testing::ManualPressure> device_pressure_ =
      std::make_shared<testing::ManualPressure>(kMiB);
  std::shared_ptr<testing::ManualPressure> host_pressure_ =
      std::make_shared<testing::ManualPressure>(2 * kMiB);
  std::shared_ptr<testing::ManualPressure> disk_pressure_ =
      std::make_shared<testing::ManualPressure>(16 * kMiB);
  std::map<std::string, Known> known_;
  std::unique_ptr<Cache> cache_;
  Verdict verdict_;
};

}  // namespace

Verdict RunScript(const std::string& dir, const Fault& fault) {
  const Exempt exempt;
  const int before = OpenDescriptors();
  Verdict verdict;
  {
    Run run(dir, fault);
    verdict = run.Go();
  }
  // The process's own memory for files is not counted here: look again.
  int after = 0;
  if (!Eventually(std::chrono::milliseconds(5), [&] {
        after = OpenDescriptors();
        return after <= before;
      })) {
    ++verdict.left;
    std::fprintf(stderr, "sweep: %d files are left open\n", after - before);
  }
  return verdict;
}

}  // namespace spillway::sweep
