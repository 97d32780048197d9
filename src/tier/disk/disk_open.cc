// SPDX-License-Identifier: Apache-2.0
// Opening a directory: the checks that must pass before anything in it is changed.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>

#include "base/quiet_thread.h"
#include "tier/disk/disk_store.h"
#include "tier/disk/system_error.h"

namespace spillway {
namespace {

constexpr std::string_view kJournalPrefix = "journal-";
constexpr std::string_view kMirrorPrefix = "mirror-";
constexpr Bytes kQuotaMin = 64 * kKiB;

std::optional<std::uint64_t> NumberIn(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

bool IsOurs(std::string_view name) {
  return name == "lock" || name == "blobs" || name.starts_with(kJournalPrefix) ||
         name.starts_with(kMirrorPrefix);
}

Error Refused(const std::string& path, const std::string& why) {
  return {Code::kUnavailable, fmt::format("disk: {} can't be used: {}", path, why)};
}

// Files and directory must belong to this user and be closed to all others.
Status CheckOwner(const std::string& path, const FileFacts& facts, std::uint32_t permissions) {
  if (facts.owner != ::geteuid()) {
    return Refused(path, fmt::format("it belongs to user {}, but this process is user {}; name a "
                                     "directory of that user or change its owner",
                                     facts.owner, ::geteuid()));
  }
  if (facts.permissions == permissions) return {};
  return Refused(path, fmt::format("its permissions are {:04o} and must be {:04o} (chmod {:o} {})",
                                   facts.permissions, permissions, permissions, path));
}

Status CheckDirectory(Files& files, const std::string& path) {
  FileFacts facts;
  if (const int result = files.Stat(path, &facts); result != 0) {
    return SystemError(-result, "look at", path);
  }
  if (!facts.directory) return Refused(path, "it is not a directory (links are not followed)");
  return CheckOwner(path, facts, 0700);
}

Hash128 NewName(Files& files) {
  Hash128 name;
  files.Random(&name, sizeof name);
  return name;
}

}  // namespace

// Finds the newest journal and checks the directory's files. Changes nothing.
Status DiskStore::Examine(Files& files, const std::string& directory, Opening* opening) {
  std::vector<std::string> names;
  if (const int result = files.List(directory, &names); result != 0) {
    return SystemError(-result, "list", directory);
  }
  opening->journal_number = 0;
  opening->journal_header.reset();
  opening->leftovers.clear();
  opening->has_mirror = false;
  for (const std::string& name : names) {
    if (!IsOurs(name)) continue;
    const std::string path = fmt::format("{}/{}", directory, name);
    FileFacts facts;
    const int result = files.Stat(path, &facts);
    if (result == -ENOENT) continue;  // Another process has just removed it.
    if (result != 0) return SystemError(-result, "look at", path);
    if (facts.directory) return Refused(path, "it is a directory, but must be a file");
    if (Status status = CheckOwner(path, facts, 0600); !status) return status;
    const auto number = NumberIn(name, kJournalPrefix);
    if (number) opening->journal_number = std::max(opening->journal_number, *number);
  }
  for (const std::string& name : names) {
    const bool is_mirror = name.starts_with(kMirrorPrefix);
    if (!is_mirror && !name.starts_with(kJournalPrefix)) continue;
    const auto number = NumberIn(name, is_mirror ? kMirrorPrefix : kJournalPrefix);
    if (number != opening->journal_number) {
      opening->leftovers.push_back(fmt::format("{}/{}", directory, name));
    } else if (is_mirror) {
      opening->has_mirror = true;
    }
  }
  return {};
}

Status DiskStore::TakeLock(const std::shared_ptr<Files>& files, const std::string& directory,
                           Opening* opening) {
  const std::string path = directory + "/lock";
  const int file = files->Open(path, {.create = true}, nullptr);
  if (file < 0) return SystemError(-file, "open", path);
  opening->lock = OpenFile(files, file);
  const int result = files->Lock(file);
  if (result == -EWOULDBLOCK) {
    std::array<char, 32> text = {};
    const std::int64_t got = files->ReadAt(file, 0, text.data(), text.size() - 1);
    const std::string_view pid(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    return Refused(directory, fmt::format("process {} has it open; every process needs a "
                                          "directory of its own",
                                          pid.substr(0, pid.find('\n'))));
  }
  if (result != 0) return SystemError(-result, "lock", path);
  const std::string pid = fmt::format("{}\n", ::getpid());
  (void)files->Truncate(file, 0);  // The number is for people; the lock holds without it.
  (void)WriteFully(*files, file, 0, pid.data(), pid.size());
  return {};
}

namespace {

using HeaderBytes64 = std::array<std::byte, JournalHeader::kBytes>;

// Whether the file contains at least one record of a journal with this header.
bool HasRecordOf(Files& files, int file, const JournalHeader& header) {
  class First final : public JournalVisitor {
   public:
    bool Record(JournalRecord&&, Bytes, std::uint32_t) override {
      is_there = true;
      return false;
    }
    bool is_there = false;
  };
  First first;
  (void)ScanJournal(files, file, -1, header, &first);
  return first.is_there;
}

// Replaces a header that is damaged by more than one bit by the mirror's. Not if
// the file names a newer format, and not if it contains nothing of this store.
std::optional<JournalHeader> HeaderByMirror(Files& files, const HeaderBytes64& bytes, int file,
                                            int mirror, std::uint64_t number) {
  HeaderBytes64 other;
  if (mirror < 0 || ReadFully(files, mirror, 0, other.data(), other.size()) != 0) return {};
  const auto decoded = DecodeJournalHeader(other);
  const auto header = decoded && *decoded ? *decoded : CorrectHeader(other);
  if (!header || header->epoch != number) return {};
  if (std::equal(bytes.begin(), bytes.begin() + 8, other.begin())) {
    return DecodeJournalHeader(bytes) ? header : std::nullopt;
  }
  const bool is_zero =
      std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  return is_zero || HasRecordOf(files, file, *header) ? header : std::nullopt;
}

// Returns the header of the newest journal; empty: it is damaged.
Result<std::optional<JournalHeader>> ReadHeader(Files& files, const std::string& path, int file,
                                                int mirror, std::uint64_t number, bool* is_mended) {
  *is_mended = false;
  HeaderBytes64 bytes;
  const int result = ReadFully(files, file, 0, bytes.data(), bytes.size());
  FileFacts facts;
  if (result != 0) {
    if (files.StatFile(file, &facts) == 0 && facts.bytes < bytes.size()) {
      return std::optional<JournalHeader>();
    }
    return SystemError(-result, "read", path);
  }
  auto header = DecodeJournalHeader(bytes);
  if ((header && *header) || IsVoidHeader(bytes)) return header;
  auto mended = CorrectHeader(bytes);
  if (!mended) mended = HeaderByMirror(files, bytes, file, mirror, number);
  if (mended) {
    *is_mended = true;
    return mended;
  }
  if (!header) return Refused(path, header.error().message);
  return header;
}

}  // namespace

Result<std::unique_ptr<DiskStore>> DiskStore::Open(const DiskOptions& asked) {
  DiskOptions options = asked;
  while (options.directory.size() > 1 && options.directory.ends_with('/')) {
    options.directory.pop_back();
  }
  if (options.directory.empty()) {
    return Error{Code::kInvalidArgument, "disk: no directory is named"};
  }
  if (options.quota < kQuotaMin) {
    return Error{Code::kInvalidArgument,
                 fmt::format("disk: a quota of {} bytes is too small; {} is the least",
                             options.quota, kQuotaMin)};
  }
  const std::shared_ptr<Files> files = options.files ? options.files : RealFiles();
  const std::string& directory = options.directory;
  const int made = files->MakeDirectory(directory);
  if (made != 0 && made != -EEXIST) return SystemError(-made, "make", directory);
  if (made == 0) {
    const std::size_t slash = directory.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : directory.substr(0, slash + 1);
    if (const int result = files->SyncDirectory(parent); result != 0) {
      return SystemError(-result, "sync", parent);
    }
  }
  if (Status status = CheckDirectory(*files, directory); !status) return status.error();

  Opening opening;
  // Once before taking the lock, which would change the directory, and once with it.
  for (const bool locked : {false, true}) {
    if (locked) {
      if (Status status = TakeLock(files, directory, &opening); !status) return status.error();
    }
    opening.journal = OpenFile();
    if (Status status = Examine(*files, directory, &opening); !status) return status.error();
    if (opening.journal_number == 0) continue;
    const std::string path = fmt::format("{}/journal-{}", directory, opening.journal_number);
    const int file = files->Open(path, {.write = locked}, nullptr);
    if (file == -ENOENT && !locked) continue;  // Another process has just replaced it.
    if (file < 0) return SystemError(-file, "open", path);
    opening.journal = OpenFile(files, file);
    opening.mirror = OpenFile();
    if (opening.has_mirror) {
      const std::string mirror_path =
          fmt::format("{}/mirror-{}", directory, opening.journal_number);
      const int mirror = files->Open(mirror_path, {.write = locked}, nullptr);
      // Without a mirror the store still works.
      if (mirror >= 0) opening.mirror = OpenFile(files, mirror);
    }
    auto header = ReadHeader(*files, path, file, opening.mirror.get(), opening.journal_number,
                             &opening.header_mended);
    if (!header) return header.error();
    opening.journal_header = *header;
  }
  opening.store = opening.journal_header ? opening.journal_header->store : NewName(*files);

  const std::string data_path = directory + "/blobs";
  const int data = files->Open(data_path, {.create = true, .direct = true}, &opening.direct);
  if (data < 0) return SystemError(-data, "open", data_path);
  opening.data = OpenFile(files, data);
  if (const int result = files->StatFile(data, &opening.data_facts); result != 0) {
    return SystemError(-result, "look at", data_path);
  }
  std::unique_ptr<DiskStore> store(new DiskStore(options, files, std::move(opening)));
  if (Status status = store->Begin(); !status) return status.error();
  return store;
}

DiskStore::DiskStore(const DiskOptions& options, std::shared_ptr<Files> files, Opening opening)
    : files_(std::move(files)),
      clock_(options.clock ? options.clock : SystemClock()),
      directory_(options.directory),
      data_path_(directory_ + "/blobs"),
      quota_(options.quota / kPageBytes * kPageBytes),
      quarantine_max_(options.quarantine_max.value_or(options.quota / 16)),
      journal_slack_(options.journal_slack),
      background_(options.background),
      opening_(std::move(opening)),
      min_free_(options.min_free.value_or(0)),
      buffers_(Seal::kPieceBytes, 2 * Files::kDepth),
      journal_(files_, directory_, this),
      nothing_(kPageBytes),
      // After the quota shrank, blobs beyond it are still found.
      allocator_(std::max(quota_, opening_.data_facts.bytes / kPageBytes * kPageBytes)),
      // A 64th of the file at a time, at most 16 MiB: few calls, little waste.
      backing_(allocator_.range(), std::clamp(std::bit_floor(quota_ / 64), 64 * kKiB, 16 * kMiB)) {
  std::fill_n(nothing_.data(), nothing_.bytes(), std::byte{0});
  SpaceFacts space;
  if (files_->FreeSpace(directory_, &space) == 0) available_ = space.available;
  if (!options.min_free) {
    min_free_ = space.total < 16 * kGiB ? space.total / 16 : std::max(kGiB, space.total / 50);
  }
}

Status DiskStore::Begin() {
  for (const std::string& path : opening_.leftovers) {
    const bool is_mirror = path.find(kMirrorPrefix, directory_.size()) != std::string::npos;
    // A mirror without its journal is never read.
    if (files_->Remove(path) != 0 && !is_mirror) journal_.OlderIsLeft();
  }
  if (opening_.journal_number == 0) {
    if (Status status = journal_.Start(opening_.store); !status) return status;
  }
  if (!background_) return {};
  thread_ = QuietThread([this] { Loop(); });
  // Started now, since later there may be no memory for a thread.
  delete_flusher_ = QuietThread([this] { FlushDeletesOnDemand(); });
  return {};
}

}  // namespace spillway
