// The kind "disk": the file system under a path.
#pragma once

#include <sys/statvfs.h>

#include <string_view>

#include "spillway/pressure.h"
#include "spillway/result.h"

namespace spillway {

// What `facts` say of a file system. Free is what a user without privileges can
// have: the blocks kept for root are taken. An Error for a file system without
// blocks, as /proc is, or with more of them than can be counted in bytes.
Result<Reading> DiskReading(const struct statvfs& facts, std::string_view source);

}  // namespace spillway
