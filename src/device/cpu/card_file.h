// A named card's file: the ledger's block mapped shared, and the kernel's file
// locks around it. One byte beyond the end is the ledger's lock, one more per
// slot says that its owner lives. They are OFD locks: they belong to the open
// file, so two cards of one process keep apart as two processes do, and the
// kernel drops them when the process ends in whatever way.
//
// The file stays when the last process leaves. Deleting it could not be done
// without a race against one that has just opened it, and a ledger on which
// nobody lives begins anew anyway.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <mutex>
#include <string>

#include "device/cpu/ledger.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class CardFile final : public LedgerLock, public SlotLife {
 public:
  // Opens or makes `path`. Garbage, another version or a cut-off file is an
  // error that says what to do; it is never overwritten.
  static Result<std::unique_ptr<CardFile>> Open(const std::string& path, Duration lock_wait);
  ~CardFile() override;

  LedgerBlock* block() { return block_; }
  // In a forked child: lets go of the parent's open file, and of nothing else.
  void CloseInChild();

  // As LedgerLock. Waits at most `lock_wait`.
  Status Lock() override;
  bool TryLock() override;
  void Unlock() override;

  // As SlotLife.
  bool Claim(int slot) override;
  void Release(int slot) override;
  bool Alive(int slot) override;

 private:
  CardFile(std::string path, Duration lock_wait);

  // Under the lock. False: the file has been replaced, begin again.
  Result<bool> Prepare();
  Status Map(int content, const struct stat& facts);
  Status FormatOrCheck(int content, Bytes size);
  bool SetLock(short type, long at);

  const std::string path_;
  const Duration lock_wait_;
  LedgerBlock* block_ = nullptr;  // Constant after Open.
  int fd_ = -1;                   // For locks alone. Constant but for CloseInChild.
  std::mutex threads_;            // OFD locks do not keep threads of one file apart.
};

}  // namespace spillway
