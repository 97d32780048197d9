#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/run_ask.sh PACK [OUT]: `spillway run` on a machine with a GPU, in bounded steps: what
# the library costs, a program that takes 0.1 to 100 GiB in single calls beside a cache that holds
# the card, without and with it, and sample programs of nvcc's own ways to allocate. Each step
# leaves a file in OUT (default: $OUT). Requires torch for the cache; steps whose parts are missing
# say so. HOLD_GIB, HOST and SECONDS_EACH change the sizes; VLLM names a Python with vLLM, MODEL its
# model.
set -uo pipefail
pack=$(cd "${1:?a folder made by bench/gpu/pack.sh and pack_py.sh}" && pwd)
out=${2:-${OUT:?a folder for what they say}}
here=$(cd "$(dirname "$0")" && pwd)
hold=${HOLD_GIB:-100} seconds=${SECONDS_EACH:-60}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONPATH=$pack/py:$here/py${PYTHONPATH:+:$PYTHONPATH}
SPILLWAY_RUN_DIR=$(mktemp -d)
export SPILLWAY_RUN_DIR
spillway=$pack/spillway
coproc_pid=

step() {  # NAME LIMIT COMMAND...
  local name=$1 limit=$2
  shift 2
  timeout -k 10 "$limit" "$@" > "$out/$name.txt" 2>&1
  echo "$name: exit $?: $(grep -v '^spillway: pid' "$out/$name.txt" | tail -n 1)"
}

# A cache that holds the card, with a host tier of the size given.
hold_card() {
  coproc HOLDER { exec timeout -k 10 900 python3 "$here/py/ask_holder.py" \
    --hold-gib "$hold" --host "$1" 2> "$out/holder-$1.err"; }
  coproc_pid=$HOLDER_PID
  exec {holder_out}<&"${HOLDER[0]}" {holder_in}>&"${HOLDER[1]}"
  while IFS= read -r -t 300 line <&"$holder_out"; do
    [[ $line == ready ]] && return 0
    echo "$line" | tee -a "$out/holder-$1.txt"
  done
  echo "no cache could be set up; see holder-$1.err"
  return 1
}
let_go() {  # HOST: the contexts are verified.
  echo >&"$holder_in"
  while IFS= read -r -t 300 line <&"$holder_out"; do echo "$line" | tee -a "$out/holder-$1.txt"; done
  wait "$coproc_pid" 2> /dev/null
  exec {holder_out}<&- {holder_in}>&-
}

nvidia-smi --query-gpu=name,memory.total,memory.used,driver_version --format=csv,noheader

# 1. What a call that succeeds costs, alone on the card.
step cost-without 60 python3 "$here/py/ask_program.py" --only alloc,create
step cost-with 60 "$spillway" run -- python3 "$here/py/ask_program.py" --only alloc,create

# 2. Single calls beside a cache, once with a host tier that takes everything, once with a full one.
for host in "${HOST:-120GiB}" 1GiB; do
  hold_card "$host" || continue
  limit=$((seconds + 60))
  step "taken-without-$host" "$limit" python3 "$here/py/ask_program.py" --seconds "$seconds"
  step "taken-with-$host" "$limit" "$spillway" run --log -- \
    python3 "$here/py/ask_program.py" --seconds "$seconds"
  let_go "$host"
done

# 3. nvcc's ways to allocate, beside a cache.
if command -v nvcc > /dev/null && hold_card "${HOST:-120GiB}"; then
  for way in driver runtime pool; do
    for cudart in static shared; do
      program=$out/sample-$way-$cudart
      nvcc -DWAY_"$way" -cudart "$cudart" -o "$program" "$here/ask_sample.cu" -lcuda || continue
      step "sample-$way-$cudart-without" 60 "$program" 60
      step "sample-$way-$cudart-with" 60 "$spillway" run --log -- "$program" 60
    done
  done
  let_go "${HOST:-120GiB}"
fi

# 4. vLLM, which looks how much is free before it starts.
if [[ -n ${VLLM:-} && -n ${MODEL:-} ]] && hold_card "${HOST:-120GiB}"; then
  script='import sys; from vllm import LLM
print(LLM(sys.argv[1], gpu_memory_utilization=0.6).generate("A cache is")[0].outputs[0].text)'
  step vllm-without 300 "$VLLM" -c "$script" "$MODEL"
  step vllm-run 300 "$spillway" run --log -- "$VLLM" -c "$script" "$MODEL"
  step vllm-shown 300 "$spillway" run --log --show-available -- "$VLLM" -c "$script" "$MODEL"
  let_go "${HOST:-120GiB}"
fi
rm -rf "$SPILLWAY_RUN_DIR"
