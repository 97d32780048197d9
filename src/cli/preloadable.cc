// SPDX-License-Identifier: Apache-2.0
#include "cli/preloadable.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/environment.h"

namespace spillway {
namespace {

// Scripts may be interpreted by scripts; the kernel follows as many.
constexpr int kScriptsMax = 4;

class ProgramFile {
 public:
  explicit ProgramFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~ProgramFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProgramFile(const ProgramFile&) = delete;
  ProgramFile& operator=(const ProgramFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  bool Read(void* into, std::size_t bytes, std::uint64_t at) const {
    return ::pread(fd_, into, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }
  // At most `most` bytes from the beginning.
  std::string Head(std::size_t most) const {
    std::string text(most, '\0');
    const ssize_t got = ::pread(fd_, text.data(), most, 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

 private:
  const int fd_;
};

std::string InPath(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const std::string all = Environment("PATH");
  for (std::string_view rest = all; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string path =
        fmt::format("{}/{}", colon == 0 ? "." : rest.substr(0, colon), command);
    struct stat facts{};
    if (::access(path.c_str(), X_OK) == 0 && ::stat(path.c_str(), &facts) == 0 &&
        S_ISREG(facts.st_mode)) {
      return path;
    }
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return {};
}

// The loader does not preload what a user names into a program with more rights than his.
bool HasMoreRights(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return false;
  if ((facts.st_mode & S_ISUID) != 0 && facts.st_uid != ::geteuid()) return true;
  if ((facts.st_mode & S_ISGID) != 0 && facts.st_gid != ::getegid()) return true;
  return ::geteuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
constexpr Elf64_Half kMachine = EM_NONE;
#endif

std::string WhyNotElf(const ProgramFile& file) {
  Elf64_Ehdr header{};
  if (!file.Read(&header, sizeof header, 0)) return {};
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return "is built for another processor than this program, and so is not the library";
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!file.Read(&part, sizeof part, header.e_phoff + std::uint64_t{i} * header.e_phentsize)) {
      return {};
    }
    if (part.p_type != PT_INTERP) continue;
    std::array<char, 256> loader{};
    if (!file.Read(loader.data(), std::min(part.p_filesz, loader.size() - 1), part.p_offset)) {
      return {};
    }
    if (std::strstr(loader.data(), "musl") != nullptr) {
      return "uses the C library musl, and the library needs glibc";
    }
    return {};
  }
  return "is statically linked: no library can be loaded before it starts";
}

}  // namespace

std::string WhyNotPreloadable(const std::string& command) {
  std::string path = InPath(command);
  for (int scripts = 0; scripts <= kScriptsMax && !path.empty(); ++scripts) {
    const ProgramFile file(path);
    if (!file.is_open()) return {};
    if (HasMoreRights(path)) {
      return "is setuid, setgid or has capabilities: the loader preloads nothing into such a "
             "program";
    }
    const std::string head = file.Head(256);
    if (head.starts_with(ELFMAG)) return WhyNotElf(file);
    if (!head.starts_with("#!")) return {};
    const std::size_t from = head.find_first_not_of(" \t", 2);
    if (from == std::string::npos) return {};
    path = head.substr(from, head.find_first_of(" \t\r\n", from) - from);
  }
  return {};
}

}  // namespace spillway
