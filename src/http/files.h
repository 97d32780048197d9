// SPDX-License-Identifier: Apache-2.0
// The files of the dashboard, embedded in the program, and how they are sent to a browser:
// compressed if possible, and not at all if the browser has them cached.
#pragma once

#include <span>
#include <string_view>

namespace spillway::http {

struct Request;
struct Answer;

struct File {
  std::string_view path;  // "/", "/assets/app-1a2b3c.js"
  std::string_view type;
  std::string_view bytes;
  std::string_view gzip = {};  // The same bytes, compressed. Empty: not available.
  std::string_view etag = {};  // With its quotes. Empty: none.
  bool immutable = false;      // The path changes whenever the bytes do.
};

// Null: there is no such file.
const File* FindFile(std::span<const File> files, std::string_view path);

// The answer to GET or HEAD.
Answer AnswerFile(const File& file, const Request& request);

}  // namespace spillway::http
