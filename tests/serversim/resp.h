// SPDX-License-Identifier: Apache-2.0
// The Redis protocol as a client sees it: requests written, replies taken apart.
// Written apart from src/wire, which is what it checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::serversim {

using Words = std::vector<std::string>;

std::string Request(const Words& words);

std::string Bulk(std::string_view bytes);
std::string Integer(std::int64_t number);
// No value, in RESP2 or RESP3.
std::string Null(int protocol);

// Bytes of the reply that `bytes` begins with; 0: it is not whole, or no reply.
std::size_t ReplyBytes(std::string_view bytes);
// Of an array, a set or a map: its elements, each a reply. Empty: it is none.
std::optional<std::vector<std::string_view>> Elements(std::string_view reply);
// The number of a reply `:n`.
std::optional<std::int64_t> NumberOf(std::string_view reply);
// A number that stands for a reply, or several, in a digest of events. Of texts for
// people only their kind counts, so that other words are the same event: an error
// counts by its code. `says_words`: it is such a text if it is no error (INFO, HELLO).
std::uint64_t DigestOf(std::string_view reply, bool says_words);
// What a bulk string or a verbatim one holds.
std::optional<std::string_view> TextOfBulk(std::string_view reply);

}  // namespace spillway::serversim
