// SPDX-License-Identifier: Apache-2.0
// The dashboard's files, built into the program from web/ by tools/web_build.sh. If they could not
// be built, there is one page that says so and why.
#pragma once

#include <span>

#include "http/files.h"

namespace spillway::server {

std::span<const http::File> DashboardFiles();

}  // namespace spillway::server
