// Files of the dashboard as they stand in the program, and how a browser gets them:
// compressed where it can, from its own store where it has them already.
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
  std::string_view gzip = {};  // The same, compressed; empty: it is not kept so.
  std::string_view etag = {};  // With its quotes; empty: none.
  bool immutable = false;      // Its name changes with its bytes.
};

const File* FindFile(std::span<const File> files, std::string_view path);

// To GET or HEAD.
Answer AnswerFile(const File& file, const Request& request);

}  // namespace spillway::http
