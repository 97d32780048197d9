// SPDX-License-Identifier: Apache-2.0
// The file of a named card: the ledger's block, mapped shared, and file locks.
// One byte beyond the end of the file is the ledger's lock; one more byte per
// slot is locked while the slot's owner lives. They are OFD locks. Those belong
// to the open file, so two cards of one process are kept apart like two
// processes, and the kernel drops them when the process ends in any way.
//
// The file stays when the last process closes it. Deleting it would race with a
// process that has just opened it, and a ledger without live processes is reset
// by the next one anyway.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "base/mutex.h"
#include "device/cpu/ledger.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class CardFile final : public LedgerLock, public SlotLife {
 public:
  // Opens or creates `path`. A file with other content, another version or a
  // truncated one is an error that says what to do; it is never overwritten.
  static Result<std::unique_ptr<CardFile>> Open(const std::string& path, Duration lock_wait);
  ~CardFile() override;

  LedgerBlock* block() { return block_; }
  // In a forked child: closes the parent's file, and nothing else.
  void CloseInChild();

  // LedgerLock. Waits at most `lock_wait`. Lock leaves `threads_` locked for Unlock.
  Status Lock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;
  bool TryLock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;
  void Unlock() override SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;

  // SlotLife.
  bool Claim(int slot) override;
  void Release(int slot) override;
  bool Alive(int slot) override;

 private:
  CardFile(std::string path, Duration lock_wait);

  // Call with the lock held. Returns false if the file was replaced: start again.
  Result<bool> Prepare();
  // Checks the file, formats an empty one, and maps it.
  Status Map(int content, const struct stat& facts);
  Status FormatOrCheck(int content, Bytes size);
  // Sets or releases the OFD lock of one byte without waiting.
  bool SetLock(short type, long at);

  const std::string path_;
  const Duration lock_wait_;
  LedgerBlock* block_ = nullptr;  // Constant after Open.
  int fd_ = -1;                   // For locks alone. Constant except for CloseInChild.
  Mutex threads_;  // OFD locks do not exclude threads of one process from each other.
};

}  // namespace spillway
