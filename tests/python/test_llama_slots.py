# SPDX-License-Identifier: Apache-2.0
"""spillway.llama_slots over a llama-server that answers as the real one was recorded to.
tools/llama_test.py runs the real one."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from array import array
from io import BytesIO
from pathlib import Path

import pytest

import spillway
from conftest import ROOT, running_daemon
from spillway.llama_slots import _main, _namespace, _proxy, _state, _store

FAKE = Path(__file__).with_name("fake_llama.py")
WITHIN = 120  # Seconds, for a machine with much else to do.


def prompt_of(seed, length=700):
    numbers = random.Random(seed)
    return [numbers.randrange(1, 250) for _ in range(length)]


class Sidecar:
    def __init__(self, folder, path, *given, model="model", server=(), **env):
        self.folder = folder / "slots"
        self.folder.mkdir(exist_ok=True)
        self.model = folder / model
        if not self.model.exists():
            self.model.write_bytes(model.encode())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = folder / f"log{self.port}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error::SyntaxWarning", "-m", "spillway.llama_slots",
                 "--listen", f"127.0.0.1:{self.port}", "--url", f"unix://{path}", "--folder",
                 self.folder, *given, "--", sys.executable, FAKE, "-m", self.model, *server],
                stderr=log, stdout=log, env={**os.environ, "PYTHONPATH": str(ROOT / "python"),
                                             **env})
        self.until(lambda: self.get("/health")[0] == 200)

    def until(self, good):
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(OSError, http.client.HTTPException):
                if good():
                    return
            time.sleep(0.02)
        raise AssertionError(f"{self.facts()}\n{self.log.read_text()}")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)

    def get(self, path):
        connection = self.connect()
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def facts(self):
        return self.get("/spillway/slots")[1]

    def post(self, path, body, **headers):
        connection = self.connect()
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body) if isinstance(body, dict) else body,
                               {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def ask(self, prompt, **more):
        status, said = self.post("/completion", {"prompt": prompt, **more})
        assert status == 200, said
        return said["tokens"], said["timings"]["cache_n"]

    def saved(self, count):
        self.until(lambda: self.facts()["saved"] == count)

    def empty(self):
        """Whether no slot file is left."""
        return not [name for name in os.listdir(next(self.folder.iterdir()))
                    if name.endswith(".bin")]

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(WITHIN)


@pytest.fixture
def slots(daemon, tmp_path):
    """Starts sidecars in front of servers of their own."""
    with spillway.Client(socket=daemon[0]) as client:
        client.clear()
    made = []

    def start(*given, path=None, **more):
        made.append(Sidecar(tmp_path, path or daemon[0], "--save-after", "0.01", "--wait", "120",
                            "--timeout", "60", *given, **more))
        return made[-1]
    yield start
    for one in made:
        if one.process.poll() is None:
            one.stop()


def test_restored_in_another_process(slots):
    first = slots()
    prompt = prompt_of(1)
    tokens, cached = first.ask(prompt)
    assert cached == 0
    first.saved(1)
    assert first.empty() and first.stop() == 0
    assert not list(first.folder.iterdir()), "the folder is removed"

    second = slots()
    # The slot held the answer as well, but for its last token.
    grown = prompt + tokens + [5, 6]
    longer = second.ask(grown)
    assert longer[1] == len(prompt) + len(tokens) - 1
    assert second.facts()["restored_tokens"] == len(prompt) + len(tokens) - 1
    second.saved(1)
    other = slots(model="other")
    assert other.ask(prompt)[1] == 0, "another model restores nothing"
    assert other.ask(prompt)[0] != tokens
    plain = slots("--min-tokens", "1000000")
    assert plain.ask(grown) == (longer[0], 0), "restored: the same tokens"


def test_the_longer_state_replaces_the_shorter(slots, daemon):
    one = slots()
    prompt = prompt_of(2)
    tokens, _ = one.ask(prompt)
    one.saved(1)
    grown = prompt + tokens + prompt_of(3, 300)
    one.ask(grown)
    one.saved(2)
    with spillway.Client(socket=daemon[0]) as client:
        def states():
            keys = client._call("KEYS", "llama:*:state:*")
            return [bytes(key) for key in keys]
        one.until(lambda: len(states()) == 1)
        assert states()[0].endswith(b":0")
    fresh = slots()
    assert fresh.ask(prompt + [1, 2, 3])[1] == len(prompt)


def test_many_contexts_take_turns_in_few_slots(slots):
    one = slots(server=["-np", "2"])
    prompts = {seed: prompt_of(seed, 600) for seed in range(10, 16)}
    answers = {seed: one.ask(prompt) for seed, prompt in prompts.items()}
    assert all(cached == 0 for _, cached in answers.values())
    one.saved(6)
    for seed, prompt in prompts.items():
        tokens, cached = one.ask(prompt)
        assert tokens == answers[seed][0] and cached == len(prompt) - 1
    # The two that were asked last were in their slots, until others took these.
    assert one.facts()["restored"] >= 4 and not one.facts()["faults"]


def test_a_context_stays_in_its_slot(slots):
    one = slots("--min-tokens", "1000000", server=["-np", "2"])  # Nothing can be restored.
    for seed in (17, 18):
        assert one.ask(prompt_of(seed))[1] == 0
    for seed in (18, 17, 17):
        assert one.ask(prompt_of(seed))[1] == len(prompt_of(seed)) - 1


def test_a_slot_is_saved_before_another_context_takes_it(slots):
    one = slots("--save-after", "86400", server=["-np", "1"])
    one.ask(prompt_of(20))
    assert one.facts()["saved"] == 0
    one.ask(prompt_of(21))
    one.saved(1)
    assert one.ask(prompt_of(20))[1] == len(prompt_of(20)) - 1


def test_what_is_not_saved_yet_is_saved_at_the_end(slots):
    one = slots("--save-after", "86400")
    one.ask(prompt_of(25))
    assert one.stop() == 0
    assert slots().ask(prompt_of(25))[1] == len(prompt_of(25)) - 1


def test_a_large_state_in_parts(slots, daemon, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "PART", 1000)
    with spillway.Client(socket=daemon[0]) as client:
        store = _store.Store("parts", client)
        content = os.urandom(4500)
        tokens = array("i", prompt_of(1, 500))
        state = store.write(tokens, BytesIO(content))
        keys = [key for key, _, _ in state.parts()]
        assert len(keys) == 5 and client.facts(keys[4])["bytes"] == 500
        into = BytesIO()
        found = store.find(tokens, 0, 128)
        assert found.name == state.name and found.common == 384
        assert store.read(found, into, time.monotonic() + WITHIN) and into.getvalue() == content
        client.delete(keys[3])
        assert not store.read(found, BytesIO(), time.monotonic() + WITHIN)
        assert store.find(tokens, 0, 128) is None, "a state that lacks a part is not found"
        assert store.find(tokens[:100], 0, 1) is None


def test_a_state_is_read_only_if_it_saves_enough(daemon):
    with spillway.Client(socket=daemon[0]) as client:
        store = _store.Store("worth", client)
        tokens = array("i", prompt_of(4, 4096))
        store.write(tokens, BytesIO(b"x" * 100))
        assert store.find(tokens, 0, 128).common == 4096
        short = tokens[:512] + array("i", [3])
        other = _store.Store("short", client)
        other.write(short, BytesIO(b"x" * 100))
        assert other.find(short, 384, 128).common == 512
        assert other.find(short, 384, 256) is None, "nearly all is there"
        shared = tokens[:640] + array("i", [7] * 400)
        assert store.find(shared, 0, 128).common == 640
        shared = tokens[:640] + array("i", [7] * 400)
        assert store.find(shared, 256, 128) is None, "4,096 tokens would be read for 384"


def test_streams_pass_piece_by_piece(slots, tmp_path):
    gate = tmp_path / "gate"
    one = slots(server=["--gate", gate])
    connection = one.connect()
    connection.request("POST", "/completion", json.dumps({"prompt": prompt_of(30), "stream": True}))
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    first = answer.read1(65536)
    assert first.startswith(b"data: ") and b'"stop": false' in first
    gate.touch()  # The server went no further until the first piece had come through.
    rest = answer.read()
    assert b'"stop": true' in rest
    one.saved(1)
    connection.close()


def test_a_client_that_goes_ends_the_stream(slots):
    one = slots()
    connection = one.connect()
    connection.request("POST", "/completion", json.dumps(
        {"prompt": prompt_of(31), "stream": True, "n_predict": 10_000_000}))
    connection.getresponse().read1(65536)
    connection.close()
    one.until(lambda: one.model.with_name("model.gone").exists())
    one.saved(1)  # What the slot holds of the prompt is good.
    assert one.ask(prompt_of(31))[1] > 0


def test_a_client_that_goes_while_it_waits(slots, tmp_path):
    one = slots(server=["--gate", tmp_path / "gate"])
    connection = one.connect()
    connection.request("POST", "/completion", json.dumps({"prompt": prompt_of(32)}))
    one.until(lambda: one.facts()["requests"] == 1)
    connection.close()
    one.until(lambda: one.model.with_name("model.gone").exists())


def test_chats_and_text(slots):
    one = slots()
    chat = {"messages": [{"role": "system", "content": "rules " * 100},
                         {"role": "user", "content": "hello " * 50}]}
    status, said = one.post("/v1/chat/completions", chat)
    assert status == 200 and said["timings"]["cache_n"] == 0
    one.saved(1)
    assert one.post("/v1/chat/completions", chat)[1]["timings"]["cache_n"] > 800
    text = {"prompt": "once upon a time " * 40}
    one.post("/completion", text)
    one.saved(2)
    one.stop()
    other = slots()
    assert other.post("/v1/chat/completions", chat)[1]["timings"]["cache_n"] > 800
    assert other.post("/completion", text)[1]["timings"]["cache_n"] > 600


def test_what_is_not_ours_passes_unchanged(slots):
    one = slots()
    assert one.get("/props")[1]["total_slots"] == 2
    assert one.post("/nowhere", {"a": 1})[0] == 404
    assert one.post("/completion", b"{no json")[0] == 400
    assert one.post("/completion", {"prompt": [[1, 2], [3]]})[0] != 0
    assert one.post("/completion", b"")[0] == 400
    assert one.ask(prompt_of(40), id_slot=1)[1] == 0
    assert one.ask(prompt_of(40), cache_prompt=False)[1] == 0
    facts = one.facts()
    assert facts["restored"] == facts["saved"] == 0 and facts["passed"] == facts["requests"] == 5
    connection = one.connect()
    connection.request("POST", "/completion", iter([b"{}"]), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 411
    connection.close()


def test_adapters_and_slots_of_clients_end_our_help(slots):
    one = slots()
    one.ask(prompt_of(41))
    one.saved(1)
    one.ask(prompt_of(42), lora=[{"id": 0, "scale": 0.5}])
    assert "adapter" in one.facts()["off"]
    one.ask(prompt_of(43))
    facts = one.facts()
    assert facts["saved"] == 1 and facts["passed"] == 2 and facts["unsaved"] == 0
    two = slots()
    assert two.post("/slots/0?action=save", {"filename": "mine"})[0] == 200
    assert "/slots/0" in two.facts()["off"]


def test_logins(slots):
    one = slots(server=["--api-key", "secret"])
    login = {"Authorization": "Bearer secret"}
    body = {"prompt": prompt_of(44)}
    assert one.post("/completion", body)[0] == 401
    assert one.post("/slots/0?action=erase", {})[0] == 401
    assert one.facts()["off"] == "", "who is not let in ends nothing"
    assert one.post("/completion", body, **login)[0] == 200
    one.saved(1)
    one.stop()
    other = slots(server=["--api-key", "secret"])
    assert other.post("/completion", body, **login)[1]["timings"]["cache_n"] > 600


def test_without_a_daemon_prompts_are_computed(slots, tmp_path):
    one = slots(path=tmp_path / "nobody.sock")
    expected = one.ask(prompt_of(50))
    assert one.ask(prompt_of(51))[1] == 0
    one.until(lambda: one.facts()["given_up"] > 0)
    facts = one.facts()
    assert facts["spillway_faults"] > 0 and "nobody.sock" in facts["last_error"]
    assert facts["restored"] == facts["saved"] == 0
    assert one.ask(prompt_of(50))[0] == expected[0] and one.empty()


def test_the_daemon_goes_and_comes_back(slots, tmp_path):
    with running_daemon(tmp_path) as (path, _):
        one = slots("--timeout", "5", path=path, server=["-np", "1"])
        expected = one.ask(prompt_of(52))[0]
        one.saved(1)
    one.ask(prompt_of(53))
    assert one.ask(prompt_of(52)) == (expected, 0)
    assert one.facts()["spillway_faults"] > 0
    with running_daemon(tmp_path):
        at = iter(range(1000))

        def stored():
            one.ask(prompt_of(1000 + next(at)))  # A fault keeps us from asking for a second.
            return one.facts()["saved"] > 1
        one.until(stored)


def test_a_restore_that_fails_is_a_recompute(slots):
    slots("--model-id", "x").ask(prompt_of(60))
    one = slots(server=["--refuse-restore"])
    expected = one.ask(prompt_of(60))
    one.saved(1)
    one.ask(prompt_of(61)), one.ask(prompt_of(62))
    assert one.ask(prompt_of(60)) == (expected[0], 0)
    facts = one.facts()
    assert facts["restored"] == 0 and "Unable to restore" in facts["last_error"] and one.empty()


def test_older_slot_files(slots):
    one = slots(server=["--old-files"])
    one.ask(prompt_of(63))
    one.saved(1)
    one.stop()
    assert slots(server=["--old-files"]).ask(prompt_of(63))[1] == len(prompt_of(63)) - 1


def child_of(pid):
    """Of all processes, the one whose parent this is."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Behind the name, which may hold anything: state, parent.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                return int(stat.parent.name)
    raise AssertionError(f"{pid} has no child")


def alive(pid):
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_ends_with_its_server_and_its_server_with_it(slots, tmp_path):
    one = slots()
    one.ask(prompt_of(70))
    server = child_of(one.process.pid)
    os.kill(server, signal.SIGKILL)
    assert one.process.wait(WITHIN) == 128 + 9
    two = slots()
    server = child_of(two.process.pid)
    left = next(two.folder.iterdir())
    two.stop(signal.SIGKILL)
    end = time.monotonic() + WITHIN
    while alive(server):
        assert time.monotonic() < end, "the server outlives a sidecar that was killed"
        time.sleep(0.02)
    assert left.exists()
    three = slots()
    assert not left.exists(), "the next one removes what a killed one left"
    assert list(three.folder.iterdir())


@pytest.mark.parametrize("words, why", [
    ([], "stands llama-server"), (["--", "x", "--port", "1"], "--port is given"),
    (["--", "x", "--host=y"], "--host"), (["--listen", "8080", "--", "x"], "127.0.0.1:8080"),
    (["--wait", "0", "--", "x"], "above 0"), (["--min-tokens", "0", "--", "x"], "from 1")])
def test_wrong_options_say_what_is_right(capsys, words, why):
    with pytest.raises(SystemExit):
        _main.arguments(words)
    assert why in capsys.readouterr().err


def test_a_program_that_is_not_there(capsys):
    assert _main.main(["--", "/no/such/llama-server", "-m", "x"]) == 2
    assert "no such program" in capsys.readouterr().err


def test_namespaces(tmp_path):
    model, adapter = tmp_path / "model.gguf", tmp_path / "adapter.gguf"
    model.write_bytes(b"weights"), adapter.write_bytes(b"adapter")
    moved = tmp_path / "moved.gguf"
    moved.write_bytes(b"weights")

    def name(*words, env=(), model_id=None):
        return _namespace.namespace(["/bin/true", "-m", *map(str, words)], dict(env), model_id)
    first = name(model)
    assert name(moved) == first, "a file counts by what it holds"
    names = [first, name(adapter), name(model, "--lora", adapter),
             name(model, "--lora-scaled", f"{adapter}:0.5"),
             name(model, "--lora-scaled", f"{adapter}:0.6"), name(model, "--rope-scale", 2),
             name(model, env={"LLAMA_ARG_ROPE_SCALE": "2"}), name(model, model_id="m")]
    assert len(set(names)) == len(names)
    assert name(model, env={"HOME": "x"}) == first
    scaled = name(model, "--lora-scaled", f"{adapter}:0.5")
    adapter.write_bytes(b"another")
    assert name(model, "--lora-scaled", f"{adapter}:0.5") != scaled
    parts = [tmp_path / f"split-0000{at}-of-00002.gguf" for at in (1, 2)]
    parts[0].write_bytes(b"1"), parts[1].write_bytes(b"2")
    split = name(parts[0])
    parts[1].write_bytes(b"3")
    assert name(parts[0]) != split, "all parts of a split model count"


def test_slot_files():
    def file(words, magic=_state.MAGIC, version=_state.VERSION, count=None):
        words = array("i", words)
        head = struct.pack("<III", magic, version, len(words) if count is None else count)
        return BytesIO(head + words.tobytes() + b"kv")
    assert list(_state.tokens_of(file([1, 2, 3]))) == [1, 2, 3]
    assert list(_state.tokens_of(file([-1, 1, 2, 8, 9, 0]))) == [8, 9]
    for bad in (file([1], magic=1), file([1], version=9), file([1, 2], count=100),
                file([-1, 2, 1, 8, 0]), file([-1, 1, 9, 8, 0]), file([-1, 1, 2, 8, -1, 0]),
                file([-1, 1, 2, 8, 9, 1, 0, 0]), file([-1]), BytesIO(b"ggsq")):
        assert _state.tokens_of(bad) is None
    assert _state.common_prefix(array("i", [1, 2, 3]), array("i", [1, 2, 4, 5])) == 2
    for at in range(40):
        one = array("i", range(40))
        other = array("i", range(40))
        other[at] = -1
        assert _state.common_prefix(one, other) == at
    assert _state.common_prefix(array("i"), array("i", [1])) == 0


def test_which_requests_get_a_slot():
    wants = _proxy.wants_help
    assert wants("/completion", {"prompt": "x"}) and wants("/v1/chat/completions", {"n": 1})
    assert not wants("/completion", {"n": 2}) and not wants("/embedding", {})
    assert not wants("/completion", {"cache_prompt": False}) and not wants("/completion", [1])
    one = _proxy._one_prompt
    assert one([1, 2]) and one([1, "x"])
    assert not one(["x", "y"]) and not one([[1], [2]]) and not one([True]) and not one([1, None])
    only = _proxy._only_text
    assert only([{"content": "x"}]) and only([{"content": [{"type": "text", "text": "x"}]}])
    assert not only([{"content": [{"type": "image_url"}]}])
