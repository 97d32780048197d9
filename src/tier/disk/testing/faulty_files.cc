// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/testing/faulty_files.h"

#include <algorithm>
#include <cstring>

namespace spillway::testing {
namespace {

void Flip(std::byte* data, Bytes bytes, Bytes bit) {
  if (bit / 8 < bytes) data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

}  // namespace

void FaultyFiles::FailAt(std::uint64_t number, int error, bool for_good) {
  script_ = [=](FileCall, std::uint64_t at, int) {
    return at == number || (for_good && at > number) ? error : 0;
  };
}

void FaultyFiles::FailAll(FileCall call, int error) {
  script_ = [=](FileCall each, std::uint64_t, int) { return each == call ? error : 0; };
}

int FaultyFiles::Before(FileCall call, int file) {
  const std::uint64_t number = calls_++;
  return script_ ? -script_(call, number, file) : 0;
}

int FaultyFiles::Stat(const std::string& path, FileFacts* facts) {
  const int error = Before(FileCall::kStat);
  return error != 0 ? error : files_->Stat(path, facts);
}

int FaultyFiles::MakeDirectory(const std::string& path) {
  const int error = Before(FileCall::kMakeDirectory);
  return error != 0 ? error : files_->MakeDirectory(path);
}

int FaultyFiles::List(const std::string& path, std::vector<std::string>* names) {
  const int error = Before(FileCall::kList);
  return error != 0 ? error : files_->List(path, names);
}

int FaultyFiles::FreeSpace(const std::string& path, SpaceFacts* space) {
  const int error = Before(FileCall::kFreeSpace);
  return error != 0 ? error : files_->FreeSpace(path, space);
}

int FaultyFiles::Rename(const std::string& from, const std::string& to) {
  const int error = Before(FileCall::kRename);
  return error != 0 ? error : files_->Rename(from, to);
}

int FaultyFiles::Remove(const std::string& path) {
  const int error = Before(FileCall::kRemove);
  return error != 0 ? error : files_->Remove(path);
}

int FaultyFiles::SyncDirectory(const std::string& path) {
  const int error = Before(FileCall::kSyncDirectory);
  return error != 0 ? error : files_->SyncDirectory(path);
}

int FaultyFiles::Open(const std::string& path, OpenHow how, bool* direct) {
  const int error = Before(FileCall::kOpen);
  if (error != 0) return error;
  const int file = files_->Open(path, how, direct);
  if (file >= 0) ++open_;
  return file;
}

void FaultyFiles::Close(int file) {
  --open_;
  files_->Close(file);
}

int FaultyFiles::Lock(int file) {
  const int error = Before(FileCall::kLock, file);
  return error != 0 ? error : files_->Lock(file);
}

int FaultyFiles::StatFile(int file, FileFacts* facts) {
  const int error = Before(FileCall::kStatFile, file);
  return error != 0 ? error : files_->StatFile(file, facts);
}

std::int64_t FaultyFiles::ReadAt(int file, Bytes at, void* data, Bytes bytes) {
  const int error = Before(FileCall::kRead, file);
  if (error != 0) return error;
  const std::int64_t result = files_->ReadAt(file, at, data, bytes);
  if (flip_read_ > 0 && result > 0) {
    Flip(static_cast<std::byte*>(data), static_cast<Bytes>(result), flip_read_ - 1);
  }
  return result;
}

std::int64_t FaultyFiles::WriteAt(int file, Bytes at, const void* data, Bytes bytes) {
  const int error = Before(FileCall::kWrite, file);
  if (error != 0) return error;
  if (write_max_ > 0) bytes = std::min(bytes, write_max_);
  if (flip_write_ == 0) return files_->WriteAt(file, at, data, bytes);
  const auto* from = static_cast<const std::byte*>(data);
  std::vector<std::byte> changed(from, from + bytes);
  Flip(changed.data(), bytes, flip_write_ - 1);
  return files_->WriteAt(file, at, changed.data(), bytes);
}

int FaultyFiles::Sync(int file) {
  const int error = Before(FileCall::kSync, file);
  return error != 0 ? error : files_->Sync(file);
}

int FaultyFiles::Allocate(int file, Bytes at, Bytes bytes) {
  const int error = Before(FileCall::kAllocate, file);
  return error != 0 ? error : files_->Allocate(file, at, bytes);
}

int FaultyFiles::Punch(int file, Bytes at, Bytes bytes) {
  const int error = Before(FileCall::kPunch, file);
  return error != 0 ? error : files_->Punch(file, at, bytes);
}

int FaultyFiles::Truncate(int file, Bytes bytes) {
  const int error = Before(FileCall::kTruncate, file);
  return error != 0 ? error : files_->Truncate(file, bytes);
}

}  // namespace spillway::testing
