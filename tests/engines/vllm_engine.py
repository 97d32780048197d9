# SPDX-License-Identifier: Apache-2.0
"""The real vLLM on the CPU, told what to do by lines of JSON.

  vllm_engine.py CONFIG    one engine; commands on stdin, answers on stdout
  vllm_engine.py --nursery FOLDER    imports vLLM once; a line {"name", "config"} forks an engine
                           whose commands and answers go through FOLDER/NAME.in and FOLDER/NAME.out

CONFIG is JSON: {"model": folder, "tier": settings of SpillwayTier or null, "zeroed": bool,
"block_size", "chunk", "cpu_bytes", "dtype", "policy"}. A command is a line {"do": ..., ...}; the
answer is a line that begins with "@@" and is JSON as well.
"""

import json
import os
import random
import sys
import time
import traceback

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")


def say(**words):
    print("@@" + json.dumps(words), flush=True)


def prompt_of(seed, length):
    numbers = random.Random(seed)
    return [numbers.randrange(3, 512) for _ in range(length)]


def engine_of(about):
    from vllm import LLM
    transfer = None
    if about.get("tier") is not None:
        kind = "ZeroedTier" if about.get("zeroed") else "SpillwayTier"
        place = "memcpy_spec" if about.get("zeroed") else "spillway.vllm"
        extra = {"spec_name": "CpuTieringSpec", "spec_module_path": "memcpy_spec",
                 "cpu_bytes_to_use": about.get("cpu_bytes", 32 << 20),
                 "block_size": about.get("chunk", 32),
                 "secondary_tiers": [{"type": kind, "module_path": place, **about["tier"]}]}
        if about.get("policy"):
            extra["eviction_policy"] = about["policy"]
            extra["cache_policy_module_path"] = "spillway.vllm"
        transfer = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
                    "kv_connector_extra_config": extra}
    return LLM(model=about["model"], skip_tokenizer_init=True,
               dtype=about.get("dtype", "bfloat16"), max_model_len=about.get("max_len", 1024),
               enforce_eager=True, max_num_seqs=8, block_size=about.get("block_size", 32),
               distributed_executor_backend="uni", kv_transfer_config=transfer,
               disable_log_stats=False, enable_prefix_caching=True,
               num_gpu_blocks_override=about.get("gpu_blocks"))


def tier_of(engine):
    """The tier inside the engine: this process is the scheduler's."""
    core = engine.llm_engine.engine_core.engine_core
    connector = core.scheduler.connector
    return connector.connector_scheduler.manager.secondary_tiers[0]


def counters(engine):
    found = {}
    for metric in engine.get_metrics():
        value = getattr(metric, "value", None)
        if value and ("spillway" in metric.name or "tiering" in metric.name
                      or "external_prefix" in metric.name):
            found[metric.name] = found.get(metric.name, 0) + value
    return found


def ask(engine, command):
    from vllm import SamplingParams
    extra = {"kv_transfer_params": command["params"]} if "params" in command else None
    settings = SamplingParams(temperature=0, max_tokens=command.get("tokens", 8), ignore_eos=True,
                              detokenize=False, logprobs=1, extra_args=extra)
    prompts = [{"prompt_token_ids": prompt_of(seed, length) + list(tail)}
               for seed, length, tail in command["prompts"]]
    began = time.monotonic()
    answers = engine.generate(prompts, settings, use_tqdm=False)
    return [{"tokens": list(answer.outputs[0].token_ids),
             "logprobs": [round(next(iter(step.values())).logprob, 5)
                          for step in answer.outputs[0].logprobs],
             "cached": answer.num_cached_tokens} for answer in answers], time.monotonic() - began


def shared():
    """This engine's files in /dev/shm. Others may run beside it."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if "/vllm_offload_" in line
                       and line.split()[-1].startswith("/dev/shm/")})


def serve(about):
    began = time.monotonic()
    engine = engine_of(about)
    import vllm
    say(ready=True, version=vllm.__version__, seconds=round(time.monotonic() - began, 1),
        pid=os.getpid(), shm=shared())
    ours = shared()
    for line in sys.stdin:
        command = json.loads(line)
        do = command["do"]
        if do == "ask":
            answers, seconds = ask(engine, command)
            say(answers=answers, seconds=round(seconds, 3), counters=counters(engine))
        elif do == "forget":  # What the GPU and vLLM's CPU tier hold; not what Spillway holds.
            say(forgot=bool(engine.llm_engine.reset_prefix_cache(False, True)))
        elif do == "settle":  # Until all stores have ended.
            tier_of(engine).drain_jobs()
            say(settled=True)
        elif do == "close":
            tier_of(engine)._store._shared.cache.close()
            say(closed=True)
        elif do == "state":  # Facts about the tier and the cache of this process.
            tier = tier_of(engine)
            cache = None if tier._store._per_thread else tier._store._shared.cache
            cache = None if cache is None or cache.closed else cache
            entries = [] if cache is None else cache.entries()
            say(faults=tier._store.faults, error=str(tier._store.last_error or ""),
                space=tier._prefix.decode(), entries=len(entries),
                tokens=sum(entry.tokens for entry in entries),
                agents=sorted({entry.agent for entry in entries}),
                order=[str(name) for name in cache.leaving_order()] if cache is not None else [],
                in_order=[name.decode() for name in tier._names(command.get("keys", []))])
        elif do == "quit":
            break
    engine.llm_engine.engine_core.shutdown()
    say(bye=True, shm=[name for name in ours if os.path.exists(name)])


def nursery(folder):
    """Importing vLLM is half of an engine's start, and no thread runs after it."""
    import vllm.v1.engine.llm_engine  # noqa: F401
    import vllm.v1.worker.cpu_worker  # noqa: F401
    from vllm import LLM, SamplingParams  # noqa: F401
    import spillway.vllm  # noqa: F401
    say(ready=True)
    for line in sys.stdin:
        about = json.loads(line)
        pid = os.fork()
        if pid:
            say(pid=pid)
            continue
        os.setsid()
        for path, flags, number in ((".in", os.O_RDONLY, 0), (".out", os.O_WRONLY, 1)):
            file = os.open(os.path.join(folder, about["name"] + path), flags)
            os.dup2(file, number)
        log = os.open(os.path.join(folder, about["name"] + ".log"),
                      os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        sys.stdin = os.fdopen(0, "r")
        run(about["config"])


def run(about):
    code = 1
    try:
        serve(about)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # vLLM's and torch's own exit takes seconds.


if __name__ == "__main__":
    if sys.argv[1] == "--nursery":
        nursery(sys.argv[2])
    else:
        run(json.loads(sys.argv[1]))
