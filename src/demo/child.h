// A Child is a process that we started and that does not outlive us, whatever
// ends us. What it says (stdout and stderr) is heard line by line. It has a
// process group of its own: Ctrl-C is for us to heed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

class Child {
 public:
  // `words` are the program's path and its arguments. Call it from a thread that
  // lives as long as the child should: the kernel ends it with that thread.
  static Result<Child> Start(const std::vector<std::string>& words);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Ends it at once, if it is still there.
  ~Child();

  pid_t pid() const { return pid_; }
  // Never waits. True: it said something.
  bool Hear(const std::function<void(std::string_view line)>& each);
  // As waitpid gives it, once it has ended. Never waits.
  std::optional<int> Ended();
  // Asks it to end; the destructor, or whoever waits for Ended, sees to the rest.
  void Ask() const;
  // Makes it end, now.
  void Kill();

 private:
  Child(pid_t pid, int out) : pid_(pid), out_(out) {}

  pid_t pid_ = -1;
  int out_ = -1;
  std::optional<int> status_;
  std::string partial_;  // Of a line.
};

}  // namespace spillway::demo
