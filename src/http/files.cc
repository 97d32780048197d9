// SPDX-License-Identifier: Apache-2.0
#include "http/files.h"

#include <algorithm>
#include <string>

#include "http/api.h"

namespace spillway::http {

namespace {

// Whether a header's list ("gzip;q=0.5, br", `"a", W/"b"`) contains the word. Items with q=0 do not
// count.
bool Names(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const std::size_t first = item.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    item.remove_prefix(first);
    const std::string_view rest = item.substr(std::min(item.find(';'), item.size()));
    item = item.substr(0, item.size() - rest.size());
    item = item.substr(0, item.find_last_not_of(" \t") + 1);
    if (item.starts_with("W/")) item.remove_prefix(2);
    const bool none = rest.find("q=0") != std::string_view::npos &&
                      rest.find_first_of("123456789") == std::string_view::npos;
    if ((item == word || item == "*") && !none) return true;
  }
  return false;
}

}  // namespace

const File* FindFile(std::span<const File> files, std::string_view path) {
  const auto found = std::ranges::find(files, path, &File::path);
  return found == files.end() ? nullptr : &*found;
}

Answer AnswerFile(const File& file, const Request& request) {
  Answer answer{.type = std::string(file.type)};
  answer.cache_control =
      file.immutable ? "public, max-age=31536000, immutable" : std::string("no-cache");
  if (!file.etag.empty()) answer.headers.emplace_back("ETag", file.etag);
  if (!file.gzip.empty()) answer.headers.emplace_back("Vary", "Accept-Encoding");
  if (!file.etag.empty() && Names(request.if_none_match, file.etag)) {
    answer.status = 304;
    return answer;
  }
  if (!file.gzip.empty() && Names(request.accept_encoding, "gzip")) {
    answer.headers.emplace_back("Content-Encoding", "gzip");
    answer.body = file.gzip;
  } else {
    answer.body = file.bytes;
  }
  return answer;
}

}  // namespace spillway::http
