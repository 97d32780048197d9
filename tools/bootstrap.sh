#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/bootstrap.sh run|test|lint|coverage|bench|packages|packages-test: installs with apt what a bare Debian 12 lacks for
# that job, and says so in one line; does nothing if all is there. Without root it prints the one
# command that is missing and stops.
#
# Required packages are in `need`; those that can be skipped, by name, are in `nice`. While another
# process holds one of apt's locks it waits, says so once, and gives up after SPILLWAY_APT_WAIT
# seconds (600): unattended upgrades take minutes.
set -euo pipefail

run=(python3 g++ cmake ninja-build pkg-config libfmt-dev libspdlog-dev libcli11-dev
     libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev liburing-dev zlib1g-dev libboost1.81-dev)
tests=(python3-venv binutils libgtest-dev libgmock-dev librapidcheck-dev)
peers=(redis-server redis-tools)  # For comparison, and their clients.
monitors=(prometheus)  # Its promtool parses /metrics.
clang=(clang-19 libclang-rt-19-dev clang-format-19)
drivers=(librocm-smi64-1)  # Inspected without a device.
# From any source: a newer Node brings npm with it.
node=() browser=()
command -v npm >/dev/null || node=(nodejs npm)  # To build the dashboard.
command -v chromium >/dev/null || browser=(chromium fonts-liberation)  # To test it.

nice=(ccache "${node[@]}")
case ${1:-} in
  run) need=("${run[@]}") ;;
  test) need=("${run[@]}" "${tests[@]}") nice+=("${clang[@]}" "${drivers[@]}" "${peers[@]}" "${monitors[@]}" "${browser[@]}") ;;
  lint) need=("${run[@]}" "${tests[@]}" clang-19 clang-format-19 clang-tidy-19) ;;
  coverage) need=("${run[@]}" "${tests[@]}") ;;
  bench) need=("${run[@]}" librocksdb-dev libbenchmark-dev) nice+=("${peers[@]}") ;;
  packages) need=("${run[@]}" python3-venv binutils dpkg-dev) ;;
  packages-test)
    need=("${run[@]}" python3-venv)
    nice+=(lintian debootstrap mandoc zsh fish "${monitors[@]}") ;;
  *) echo "usage: tools/bootstrap.sh run|test|lint|coverage|bench|packages|packages-test" >&2 && exit 2 ;;
esac

# missing PACKAGE...: prints the packages that are not installed, one per line.
missing() {
  local installed
  [[ $# -gt 0 ]] || return 0
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  printf '%s\n' "$@" | grep -vxF -f <(printf '%s\n' "$installed") || true
}

if ! command -v dpkg-query >/dev/null; then
  echo "bootstrap: this is not Debian; assuming the equivalents of: ${need[*]}" >&2
  exit 0
fi

mapfile -t need < <(missing "${need[@]}")
mapfile -t nice < <(missing "${nice[@]}")
[[ ${#need[@]} -eq 0 && ${#nice[@]} -eq 0 ]] && exit 0

install=(apt-get install -y --no-install-recommends)
if [[ $(id -u) -ne 0 ]]; then
  # Only packages that can be skipped are missing: say so and continue.
  if [[ ${#need[@]} -eq 0 ]]; then
    echo "bootstrap: not installed, and skipped: ${nice[*]}" >&2
    exit 0
  fi
  echo "bootstrap: missing packages; as root, run:" >&2
  echo "  apt-get update && ${install[*]} ${need[*]} ${nice[*]}" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
export LC_ALL=C  # apt's output is parsed below.
log=$(mktemp)
trap 'rm -f "$log" "$log.last"' EXIT
updated=no

wait_max=${SPILLWAY_APT_WAIT:-600}
[[ $wait_max =~ ^[0-9]+$ ]] || {
  echo "bootstrap: SPILLWAY_APT_WAIT is '$wait_max': it must be a number of seconds" >&2
  exit 2
}
waited=0
said_wait=no

# apt ARGUMENT...: runs apt-get again while another process holds a lock. DPkg::Lock::Timeout only
# waits for dpkg's lock, not for those of the package lists and archives, so apt's output decides.
apt() {
  local holder
  until apt-get "$@" >"$log.last" 2>&1; do
    cat "$log.last" >>"$log"
    # With "(13: Permission denied)" and similar errors waiting does not help.
    grep -qE '^E: Could not get lock .*(held by process|Resource temporarily unavailable)|is locked by another process' \
      "$log.last" || return 1
    holder=$(sed -n 's/^E: Could not get lock \(.*\)\. It is held by \(process .*\)$/\2 holds \1/p' \
      "$log.last" | head -n 1)
    if [[ $waited -ge $wait_max ]]; then
      echo "bootstrap: gives up after ${waited} s: ${holder:-another process holds a lock of apt}" >&2
      exit 1
    fi
    if [[ $said_wait == no ]]; then
      echo "bootstrap: waits up to ${wait_max} s: ${holder:-another process holds a lock of apt}" >&2
      said_wait=yes
    fi
    sleep 1
    waited=$((waited + 1))
  done
  cat "$log.last" >>"$log"
}

update() {
  [[ $updated == yes ]] || apt update -qq || true
  updated=yes
}

# try PACKAGE...: installs all of them, with fresh package lists if necessary.
try() {
  local candidates
  candidates=$(apt-cache policy "$@" 2>/dev/null | grep -c '^  Candidate: [0-9]' || true)
  [[ $candidates -eq $# ]] || update
  apt "${install[@]:1}" -qq "$@" && return 0
  [[ $updated == no ]] || return 1
  update
  apt "${install[@]:1}" -qq "$@"
}

echo "bootstrap: installing ${need[*]} ${nice[*]}"
if ! try "${need[@]}" "${nice[@]}"; then
  [[ ${#need[@]} -eq 0 ]] || try "${need[@]}" || true
  for package in "${nice[@]}"; do
    try "$package" || true
  done
fi

mapfile -t need < <(missing "${need[@]}")
mapfile -t nice < <(missing "${nice[@]}")
[[ ${#nice[@]} -eq 0 ]] || echo "bootstrap: could not be installed, and skipped: ${nice[*]}" >&2
if [[ ${#need[@]} -gt 0 ]]; then
  echo "bootstrap: could not install ${need[*]}; apt said:" >&2
  grep -E '^(E|W|Err)' "$log" | tail -n 5 >&2 || true
  exit 1
fi
