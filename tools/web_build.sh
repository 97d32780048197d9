#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/web_build.sh OUT.cc: builds the dashboard (web/) with npm under build/web and writes it as a
# C++ source. It is only built again if its files changed. If npm or its registry is missing, the
# source holds one plain page that says so, and the script succeeds: the daemon needs no dashboard.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
dir=build/web
mkdir -p "$dir"
exec 8>"$dir/.lock"  # Several build directories may need it at the same time.
flock 8

# without WHY: writes a page that says why there is no dashboard.
without() {
  echo "dashboard: not built in: $1" >&2
  local why
  why=$(printf '%s' "$1" | tr -d '\\"' | tr '\n' ' ' | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g')
  cat >"$out" <<CC
// Made by tools/web_build.sh: the dashboard could not be built.
#include "server/dashboard.h"

#include <array>

namespace spillway::server {

std::span<const http::File> DashboardFiles() {
  static constexpr std::array kFiles = {http::File{
      .path = "/",
      .type = "text/html; charset=utf-8",
      .bytes = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Spillway</title>"
               "<h1>Spillway</h1><p>The daemon runs. Its dashboard was not built in: $why.</p>"
               "<p>With npm and its registry at hand: touch web/package.json, then make.</p>"
               "<p><a href=\"/api/v1\">/api/v1</a> lists all requests; "
               "<a href=\"/metrics\">/metrics</a> is for Prometheus; spillway top shows the same "
               "in a terminal.</p></html>\n"}};
  return kFiles;
}

}  // namespace spillway::server
CC
  exit 0
}

mapfile -t sources < <(find web -type f -not -path '*/node_modules/*' -not -path '*/dist/*' | LC_ALL=C sort)
hash=$(sha256sum "${sources[@]}" | sha256sum | cut -d' ' -f1)
lock=$(sha256sum web/package.json web/package-lock.json | sha256sum | cut -d' ' -f1)

if [[ $(cat "$dir/built" 2>/dev/null) != "$hash" ]]; then
  [[ ${SPILLWAY_WEB:-on} != off ]] || without "SPILLWAY_WEB is off"
  command -v node >/dev/null && command -v npm >/dev/null || without "npm is not installed"
  [[ $(node -p 'parseInt(process.versions.node)') -ge 18 ]] ||
    without "Node $(node --version) is too old; 18 or later is needed"
  rm -rf "$dir/built" "$dir/src" "$dir/dist"
  cp -R "${sources[0]%%/*}"/. "$dir"/
  log=$dir/npm.log
  if [[ $(cat "$dir/installed" 2>/dev/null) != "$lock" ]]; then
    rm -f "$dir/installed"
    (cd "$dir" && timeout 300 npm ci --ignore-scripts --prefer-offline --no-audit --no-fund --fetch-retries=1 \
      --fetch-retry-mintimeout=1000 --fetch-timeout=30000) >"$log" 2>&1 ||
      without "npm ci failed: $(grep -m1 -iE 'npm (err|error)' "$log" | cut -c1-200 || true)"
    echo "$lock" >"$dir/installed"
  fi
  if ! (cd "$dir" && timeout 600 npm run -s build) >"$log" 2>&1; then  # A mistake in our sources.
    cat "$log" >&2
    exit 1
  fi
  echo "$hash" >"$dir/built"
fi
node web/embed.mjs "$dir/dist" "$out"
