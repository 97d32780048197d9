// SPDX-License-Identifier: Apache-2.0
// Checks whether a request is allowed. Three things protect the server: the host names it may be
// addressed by (another site's page can make a browser send requests to our address under that
// site's name), the origin of a page's request, and the password.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace spillway::http {

// The name in "localhost:7380" or "[::1]:80", in lower case. Empty: not a host.
std::string HostNameOf(std::string_view host);

// Whether the host is this machine's loopback, "localhost", or one of `more`.
bool IsKnownHost(std::string_view host, std::span<const std::string> more);

// Whether the page that made the request is our own. A request without an Origin was not made by a
// page.
bool IsOwnOrigin(std::string_view origin, std::string_view host);

// Checks "Bearer PASSWORD", or "Basic" with any user name. Takes the same time for right and wrong
// passwords.
bool IsAuthorized(std::string_view authorization, std::string_view password);

}  // namespace spillway::http
