#!/usr/bin/env bash
# tools/bootstrap.sh run|test|lint|coverage|bench: installs, by apt, what a bare
# Debian 12 lacks for that job and says so in one line; costs nothing when all
# is there. Without root it prints the one command that is missing and stops.
#
# What a job cannot do without is `need`; what it can skip, by name, is `nice`.
set -euo pipefail

run=(g++ cmake ninja-build pkg-config libfmt-dev libspdlog-dev libcli11-dev
     libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev liburing-dev zlib1g-dev libboost1.81-dev)
tests=(python3 python3-venv binutils libgtest-dev libgmock-dev librapidcheck-dev)
peers=(redis-server redis-tools)  # To be compared with; and their clients.
monitors=(prometheus)  # Its promtool reads what /metrics says.
clang=(clang-19 libclang-rt-19-dev clang-format-19)
drivers=(librocm-smi64-1)  # To be looked through without a device.
# From wherever they come: whoever has a newer Node has npm with it.
node=() browser=()
command -v npm >/dev/null || node=(nodejs npm)  # They build the dashboard.
command -v chromium >/dev/null || browser=(chromium fonts-liberation)  # It is looked at in.

nice=(ccache "${node[@]}")
case ${1:-} in
  run) need=("${run[@]}") ;;
  test) need=("${run[@]}" "${tests[@]}") nice+=("${clang[@]}" "${drivers[@]}" "${peers[@]}" "${monitors[@]}" "${browser[@]}") ;;
  lint) need=("${run[@]}" "${tests[@]}" clang-19 clang-format-19 clang-tidy-19) ;;
  coverage) need=("${run[@]}" "${tests[@]}") ;;
  bench) need=("${run[@]}" librocksdb-dev libbenchmark-dev) nice+=("${peers[@]}") ;;
  *) echo "usage: tools/bootstrap.sh run|test|lint|coverage|bench" >&2 && exit 2 ;;
esac

# missing PACKAGE...: those of them that are not installed, one a line.
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
  if [[ ${#need[@]} -eq 0 ]]; then  # Only what can be skipped: say so and go on.
    echo "bootstrap: not installed, and skipped: ${nice[*]}" >&2
    exit 0
  fi
  echo "bootstrap: missing packages; as root, run:" >&2
  echo "  apt-get update && ${install[*]} ${need[*]} ${nice[*]}" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
updated=no

update() {
  [[ $updated == yes ]] || apt-get update -qq >>"$log" 2>&1 || true
  updated=yes
}

# try PACKAGE...: installs all of them, with fresh package lists if need be.
try() {
  local candidates
  candidates=$(apt-cache policy "$@" 2>/dev/null | grep -c '^  Candidate: [0-9]' || true)
  [[ $candidates -eq $# ]] || update
  "${install[@]}" -qq "$@" >>"$log" 2>&1 && return 0
  [[ $updated == no ]] || return 1
  update
  "${install[@]}" -qq "$@" >>"$log" 2>&1
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
