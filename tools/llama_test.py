#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spillway.llama_slots with the real llama-server, which tools/llama_server.py builds.

Stored, and restored in front of another llama-server: the same tokens, and how many of the prompt's
were restored (cache_n). Two controls: another model restores nothing, and a state whose KV has been
changed changes the answer.
"""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine_venv import NotHad
from llama_server import VERSION, llama_server
from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/engines"), str(ROOT / "python")]

import make_gguf  # noqa: E402
import spillway  # noqa: E402
from engines import Daemon  # noqa: E402

WITHIN = 300  # Seconds, for a machine with much else to do.
WORDS = 8
CHANGED = 16 << 10  # Bytes; a layer's values for 300 tokens have 38,400.
tally = Tally()


def check(what, good, why=""):
    if good:
        tally.passed += 1
    else:
        tally.failed += 1
        print(f"FAILED: {what}\n{why}", flush=True)
    return good


class Sidecar:
    """llama_slots in front of a llama-server of its own."""

    def __init__(self, program, folder, daemon, model, *given):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = folder / f"{self.port}.log"
        (folder / "slots").mkdir(exist_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spillway.llama_slots", "--listen",
                 f"127.0.0.1:{self.port}", "--url", f"unix://{daemon.socket}", "--folder",
                 folder / "slots", "--save-after", "0.01", *given, "--", program, "-m", model,
                 "-np", "2", "-c", "2048", "-t", "1", "--no-warmup", "--cache-ram", "0"],
                stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.until(lambda: self.call("GET", "/health")[0] == 200)

    def until(self, good):
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if good():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise SystemExit(self.log.read_text()[-4000:])

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def ask(self, prompt, **more):
        """Tokens of the answer, how many of the prompt were there, how many were computed."""
        status, data = self.call("POST", "/completion", {
            "prompt": prompt, "n_predict": WORDS, "temperature": 0, "return_tokens": True,
            "ignore_eos": True, **more})
        if status != 200:
            raise SystemExit(f"{status} {data!r}\n{self.log.read_text()[-3000:]}")
        if not more.get("stream"):
            pieces = [json.loads(data)]
        else:
            pieces = [json.loads(line[6:]) for line in data.split(b"\n")
                      if line.startswith(b"data: {")]
        tokens = [token for piece in pieces for token in piece.get("tokens", [])]
        timings = pieces[-1]["timings"]
        return tokens, timings["cache_n"], timings["prompt_n"]

    def facts(self):
        return json.loads(self.call("GET", "/spillway/slots")[1])

    def saved(self, count):
        self.until(lambda: self.facts()["saved"] >= count)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WITHIN)


def change_state(daemon):
    """Overwrites the end of all states in the daemon: values of the last layer."""
    with spillway.Client(socket=daemon.socket) as client:
        for key in client._call("KEYS", "llama:*:state:*"):
            value = bytearray(client.get(bytes(key)))
            value[-CHANGED:] = bytes(CHANGED)
            client.set(bytes(key), bytes(value), tokens=1)


def run(program, folder, daemon):
    models = [folder / f"{seed}.gguf" for seed in (1, 2)]
    for seed, model in enumerate(models):
        make_gguf.write(model, seed)
    numbers = random.Random(2)
    prompt = [numbers.randrange(3, 320) for _ in range(300)]
    grown = prompt + [numbers.randrange(3, 320) for _ in range(40)]

    plain = Sidecar(program, folder, daemon, models[0], "--min-tokens", "100000")
    expected, cached, _ = plain.ask(prompt)
    check("the first prompt is computed", cached == 0)
    # As streams: there llama-server leaves out tokens that are not whole characters.
    expected_grown = plain.ask(grown, id_slot=1, stream=True)[0]
    check("the answers differ", expected != expected_grown and len(set(expected)) > 2,
          f"{expected} {expected_grown}")
    plain.stop()

    first = Sidecar(program, folder, daemon, models[0])
    tokens, cached, _ = first.ask(prompt)
    check("storing changes no answer", tokens == expected and cached == 0)
    first.saved(1)
    check("it ends", first.stop() == 0)

    second = Sidecar(program, folder, daemon, models[0])
    tokens, cached, computed = second.ask(prompt)
    print(f"restored by another llama-server: cache_n {cached}, prompt_n {computed}; "
          f"{second.facts()['restored_tokens']} tokens in the slot", flush=True)
    check("restored: the same tokens", tokens == expected, f"{tokens} {expected}")
    check("restored: all but the last token", cached == len(prompt) - 1, cached)
    second.stop()

    third = Sidecar(program, folder, daemon, models[0])
    tokens, cached, _ = third.ask(grown, stream=True)
    print(f"a longer prompt, as a stream: cache_n {cached} of {len(grown)}", flush=True)
    check("a longer prompt: the same tokens", tokens == expected_grown,
          f"{tokens} {expected_grown}")
    check("a longer prompt: its prefix is restored", cached == len(prompt), cached)
    facts = third.facts()
    check("no faults", facts["faults"] == facts["spillway_faults"] == 0, facts)
    third.saved(1)
    third.stop()

    other = Sidecar(program, folder, daemon, models[1])
    tokens, cached, _ = other.ask(prompt)
    check("another model restores nothing", cached == 0 and tokens != expected)
    other.stop()

    change_state(daemon)
    control = Sidecar(program, folder, daemon, models[0])
    tokens, cached, _ = control.ask(grown, stream=True)
    check("a control with other KV: other tokens", cached > 0 and tokens != expected_grown,
          f"{cached} {tokens} {control.facts()}")
    daemon.kill()
    tokens, _, _ = control.ask(prompt, id_slot=1)
    check("without the daemon: right tokens", tokens == expected, f"{tokens} {expected}")
    control.stop()
    check("no slot file is left", not list((folder / "slots").iterdir()))


def main():
    try:
        program = llama_server() / "llama-server"
    except NotHad as why:
        tally.skipped += 1
        print(f"skipped: llama-server {VERSION}: {why}")
        tally.finish()
    with tempfile.TemporaryDirectory(prefix="spillway-llama-", dir="/tmp") as folder:
        daemon = Daemon(Path(folder) / "daemon").start()
        try:
            run(program, Path(folder), daemon)
        finally:
            daemon.kill()
    tally.finish()


if __name__ == "__main__":
    main()
