// SPDX-License-Identifier: Apache-2.0
// The kind "file": a pressure that a user writes into a file, for tests and for
// operators with better knowledge. The file contains one of
//
//   0.93                      a share; converted to a part of 1 TiB (given.h)
//   total 80GiB free 5GiB     on one line or two, in either order
//
// and is read again each time. Replace it by renaming another file over it: an
// empty file is an error, not a pressure of 0.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "base/small_file.h"
#include "monitor/source/given.h"
#include "monitor/source/kind.h"

namespace spillway {
namespace {

// Room for two sizes many times over; a longer file is not a pressure file.
constexpr std::size_t kTextMax = 4 * kKiB;
constexpr std::string_view kRight =
    "write a share from 0 to 1 (0.93), or 'total 80GiB' and 'free 5GiB'";

std::string_view TakeWord(std::string_view* text) {
  constexpr std::string_view kBlank = " \t\r\n";
  text->remove_prefix(std::min(text->find_first_not_of(kBlank), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kBlank));
  text->remove_prefix(word.size());
  return word;
}

// A size may be two words, "1.5 GiB": it ends where the next name begins.
std::optional<Reading> ParseTotalAndFree(std::string_view text) {
  std::array<std::string, 2> sizes;  // Of total and of free.
  std::string* into = nullptr;
  for (std::string_view word = TakeWord(&text); !word.empty(); word = TakeWord(&text)) {
    if (word == "total" || word == "free") {
      into = &sizes[word == "free"];
      if (!into->empty()) return std::nullopt;  // Given twice.
    } else if (into == nullptr) {
      return std::nullopt;
    } else {
      *into += fmt::format("{}{}", into->empty() ? "" : " ", word);
    }
  }
  const Result<Bytes> total = ParseBytes(sizes[0]);
  const Result<Bytes> free = ParseBytes(sizes[1]);
  if (!total || !free) return std::nullopt;
  return Reading{*total, *free, {}, Scope::kGiven};
}

std::optional<Reading> ParseReading(std::string_view text) {
  std::string_view rest = text;
  const std::string_view first = TakeWord(&rest);
  if (TakeWord(&rest).empty()) {
    const std::optional<double> share = ParseShare(first);
    if (share) return GivenReading(*share);
    return std::nullopt;
  }
  return ParseTotalAndFree(text);
}

class FileSource final : public PressureSource {
 public:
  explicit FileSource(std::string_view path) : path_(path), name_(fmt::format("file:{}", path)) {}

  Result<Reading> Read() override {
    const Result<std::optional<std::string>> text = ReadSmallFile(path_, kTextMax);
    if (!text) {
      const Error& error = text.error();
      return Error{error.code, fmt::format("file: {}; {}", error.message, kRight)};
    }
    if (!*text) {
      return Error{Code::kUnavailable, fmt::format("file: {} is not there", Printable(path_))};
    }
    const std::optional<Reading> reading = ParseReading(**text);
    if (!reading) return Wrong(**text, "is no pressure");
    if (const Result<Reading> sane = Checked(*reading, name_); !sane) {
      return Wrong(**text, "cannot be: " + sane.error().message);
    }
    return *reading;
  }
  std::string_view name() const override { return name_; }

 private:
  Error Wrong(std::string_view text, std::string_view why) const {
    while (text.ends_with('\n')) text.remove_suffix(1);
    return Error{Code::kInvalidArgument, fmt::format("file: {}: '{}' {}; {}", Printable(path_),
                                                     Printable(text), why, kRight)};
  }

  const std::string path_;
  const std::string name_;
};

class FileSources final : public SourceKind {
 public:
  std::string_view name() const override { return "file"; }
  std::string_view what() const override { return "a pressure that a user writes into a file"; }

  Sighting Look(const Machine&) const override {
    return {.why_not = "needs a path: file:/run/spillway/pressure", .named_by_user = true};
  }

  Result<std::shared_ptr<PressureSource>> Open(const Machine& machine,
                                               std::string_view device) const override {
    if (device.empty()) {
      return Error{Code::kInvalidArgument, fmt::format("file: {}", Look(machine).why_not)};
    }
    auto source = std::make_shared<FileSource>(device);
    if (const Result<Reading> first = source->Read(); !first) return first.error();
    return std::shared_ptr<PressureSource>(std::move(source));
  }
};

}  // namespace

const SourceKind& FileKind() {
  static const FileSources kKind;
  return kKind;
}

}  // namespace spillway
