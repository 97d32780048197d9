// SPDX-License-Identifier: Apache-2.0
// The kind "disk": the file system under a path.
#pragma once

#include <sys/statvfs.h>

#include <string_view>

#include "spillway/pressure.h"
#include "spillway/result.h"

namespace spillway {

// The reading for a file system with these facts. Free is the space for users
// without privileges: blocks reserved for root count as used. Returns an Error
// for a file system without blocks, like /proc, or with more of them than can
// be counted in bytes.
Result<Reading> DiskReading(const struct statvfs& facts, std::string_view source);

}  // namespace spillway
