// Who may ask: names under which the server may be called (a page elsewhere can
// make a browser ask for our address under its own name), where a page's request
// comes from, and the password.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace spillway::http {

// "localhost:7380", "[::1]:80": the name alone, lower case. Empty: it is no host.
std::string HostNameOf(std::string_view host);

// Addresses of this machine's own loopback, "localhost", and those in `more`.
bool IsKnownHost(std::string_view host, std::span<const std::string> more);

// A page's request names where the page is from; it must be from us. Without an
// Origin it is no page's.
bool IsOwnOrigin(std::string_view origin, std::string_view host);

// "Bearer PASSWORD", or "Basic" with any name. In a time that tells nothing of it.
bool IsAuthorized(std::string_view authorization, std::string_view password);

}  // namespace spillway::http
