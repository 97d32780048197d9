# SPDX-License-Identifier: Apache-2.0
"""What engine integrations are made of: blocks, hints, names. The real engines run in
tools/engine_tests.py."""

import ctypes
import json
import os
import types
import warnings

import pytest

import spillway
from spillway import _blocks, _fingerprint
from spillway.engine_hints import RequestHints
from spillway.vllm import _hints, _space

SIZE = 10_000


class Memory:
    """Rows of memory, and a row as two pieces."""

    def __init__(self, rows, random=True):
        self.bytes = bytearray(os.urandom(rows * SIZE) if random else bytes(rows * SIZE))
        self.array = (ctypes.c_ubyte * len(self.bytes)).from_buffer(self.bytes)

    def block(self, at):
        start = ctypes.addressof(self.array) + at * SIZE
        return [(start, 1000), (start + 1000, SIZE - 1000)]

    def row(self, at):
        return bytes(self.bytes[at * SIZE:(at + 1) * SIZE])


@pytest.fixture(params=["local", "daemon"])
def store(request):
    if request.param == "local":
        made = _blocks.opener_of({"capacity": "64MiB", "sample_period": "2s"}, "test")
    else:
        path, _ = request.getfixturevalue("daemon")
        made = _blocks.opener_of({"socket": str(path)}, "test")
    yield made
    assert made.faults == 0, made.last_error
    made.close()


def keys_of(request, count):
    return [f"{request.node.name}:{at}".encode() for at in range(count)]


def test_blocks_come_back_as_they_were(store, request):
    source, target = Memory(20), Memory(21, random=False)
    keys = keys_of(request, 20)
    assert store.present(keys) == [False] * 20
    options = [_blocks.Options(32, "planner", keys[at - 1] if at else None, ttl=600)
               for at in range(20)]
    assert store.write(keys, [source.block(at) for at in range(20)], options) == [True] * 20
    assert store.present([*keys, b"nobody"]) == [True] * 20 + [False]
    assert store.read([*keys, b"nobody"], [target.block(at) for at in range(21)]) == \
        [True] * 20 + [False]
    assert [target.row(at) for at in range(20)] == [source.row(at) for at in range(20)]
    assert not any(target.row(20))
    # A value of another size is a miss.
    assert store.read(keys[:1], [[(target.block(0)[0][0], 500)]]) == [False]
    store.touch(keys[-1:], "again", 30.0, "tool")
    assert store.read([], []) == [] and store.write([], [], []) == []


def test_large_batches_are_cut():
    parts = list(_blocks.batches([100 << 20, 1, 1]))
    assert parts == [(0, 1), (1, 3)]
    assert list(_blocks.batches([1] * 600)) == [(0, 256), (256, 512), (512, 600)]
    assert list(_blocks.batches([])) == []


def test_chains_are_evicted_from_their_end(request):
    store = _blocks.opener_of({"capacity": "64MiB", "start": False}, "test")
    source, keys = Memory(8), keys_of(request, 8)
    store.write(keys, [source.block(at) for at in range(8)],
                [_blocks.Options(32, parent=keys[at - 1] if at else None) for at in range(8)])
    cache = store._shared.cache
    assert cache.match(keys) == 8
    assert [key.encode() for key in cache.leaving_order()] == keys[::-1]
    store.close()


def test_faults_are_counted_warned_of_once_and_misses():
    now = [100.0]

    class Broken:
        def present(self, keys):
            raise spillway.Unavailable("gone")

        def close(self):
            raise OSError("closing failed")

    store = _blocks.Guarded(Broken, "test", per_thread=False, clock=lambda: now[0])
    with pytest.warns(RuntimeWarning, match="gone"):
        assert store.present([b"a", b"b"]) == [False, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.present([b"a"]) == [False] and store.faults == 1  # Not asked for a second.
        now[0] += 2
        assert store.present([b"a"]) == [False] and store.faults == 2
        assert "gone" in str(store.last_error)
        store.close()


def test_wrong_settings_are_said_and_never_tried_again():
    store = _blocks.opener_of({"capcity": "1GiB"}, "test")
    with pytest.warns(RuntimeWarning, match="capcity"):
        assert store.present([b"a"]) == [False]
    assert store.broken and not store.ready
    store = _blocks.opener_of({"socket": "/nowhere", "capacity": "1GiB"}, "test")
    with pytest.warns(RuntimeWarning, match="a daemon has its own"):
        assert store.read([b"a"], [Memory(1).block(0)]) == [False]


def test_a_daemon_that_comes_back_is_used_again(tmp_path):
    from conftest import running_daemon
    with running_daemon(tmp_path) as (path, _):
        store = _blocks.opener_of({"socket": str(path)}, "test")
        source = Memory(1)
        assert store.write([b"k"], [source.block(0)], [_blocks.Options(1)]) == [True]
    with pytest.warns(RuntimeWarning):
        assert store.read([b"k"], [source.block(0)]) == [False]
    store._down_until = 0.0
    with running_daemon(tmp_path):
        assert store.write([b"k"], [source.block(0)], [_blocks.Options(1)]) == [True]
        assert store.read([b"k"], [source.block(0)]) == [True]
        store.close()


# --- hints ---


def test_hints_are_read():
    graph = {"run": "r1", "steps": [{"id": "plan"}]}
    hints = _hints.read({"spillway.agent": "planner", "spillway.session": "s1",
                         "spillway.ttl": 600, "other": 1, "spillway.graph": graph,
                         "spillway": {"run": "r1", "step": "plan", "hint": "again"}})
    assert hints.owner == "s1/planner" and hints.waits_for == "r1/plan"
    assert hints.ttl == 600.0 and hints.hint == "again" and json.loads(hints.graph) == graph
    assert _hints.read(None) is _hints.NOTHING and _hints.read({"a": 1}) is _hints.NOTHING
    envelope = types.SimpleNamespace(actions=[types.SimpleNamespace(
        action_type="spillway", payload={"agent": "actor", "eta": 3})])
    hints = _hints.read(None, envelope)
    assert hints.owner == "actor" and hints.eta == 3.0


@pytest.mark.parametrize("params", [
    {"spillway.ttl": -1}, {"spillway.ttl": float("nan")}, {"spillway.ttl": float("inf")},
    {"spillway.ttl": True}, {"spillway.ttl": "10"}, {"spillway.agent": 5},
    {"spillway.agent": "x" * 1000}, {"spillway.agent": "a\nb"}, {"spillway.agent": ""},
    {"spillway.hint": "perhaps"}, {"spillway.graph": "no json"}, {"spillway.graph": [1]},
    {"spillway.graph": {"a": "x" * (1 << 20)}}, {"spillway.unknown": 1}, {"spillway": "text"},
    {"spillway.eta": 1e300}, {"spillway.step": b"bytes"}, {3: 4}, ["spillway.agent"], "text"],
    ids=lambda params: repr(params)[:40])
def test_nonsense_is_ignored(params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert _hints.read(params) is _hints.NOTHING


def test_nonsense_is_said_once(monkeypatch):
    monkeypatch.setattr(_hints, "_warned", set())
    with pytest.warns(RuntimeWarning, match="spillway.ttl") as said:
        for _ in range(3):
            assert _hints.read({"spillway.ttl": -1, "spillway.agent": "a"}).owner == "a"
    assert len(said) == 1


def test_request_hints_carry_the_graph_once():
    graph = {"run": "r1", "steps": [{"id": "plan", "agent": "planner"}, {"id": "act"}]}
    hints = RequestHints(graph, ttl=60)
    first = hints.step("plan")["extra_body"]["kv_transfer_params"]
    assert first == {"spillway.agent": "planner", "spillway.run": "r1", "spillway.step": "plan",
                     "spillway.ttl": 60, "spillway.graph": graph}
    assert hints.params("act", hint="done") == {
        "spillway.agent": "act", "spillway.run": "r1", "spillway.step": "act",
        "spillway.ttl": 60, "spillway.hint": "done"}
    assert _hints.read(first).waits_for == "r1/plan"
    named = RequestHints({"run": "r2", "steps": [{"id": "plan", "agent": "s9/planner"}]},
                         session="s9")
    assert _hints.read(named.params("plan")).owner == "s9/planner"


def test_a_langgraph_cursor_is_a_graph_too():
    class Cursor:
        run = ""

        def document(self, run):
            return {"run": run, "steps": [{"id": "node"}]}

    params = RequestHints(Cursor(), run="r7").params("node")
    assert params["spillway.run"] == "r7" and params["spillway.graph"]["run"] == "r7"


# --- names ---


def offloading_config(**changes):
    fields = {"worker_kv_bytes_per_block": 65536, "kv_cache_layout": "LBHNC",
              "canonical_layout": False, "replicated_layout": False,
              "dtype": "bfloat16", "tokens_per_hash": 32, "blocks_per_chunk": 1, "rank": 0,
              "tp_size": 1, "layers": ["l0", "l1"], "row": 65536, "version": "0.32.0",
              "device": "cpu", **changes}
    some = types.SimpleNamespace
    config = some(model=some(dtype=fields["dtype"], name="toy"),
                  cache=some(tokens_per_hash=fields["tokens_per_hash"],
                             blocks_per_chunk=fields["blocks_per_chunk"]),
                  groups=[some(tokens_per_block=32, layer_names=fields["layers"])],
                  parallel=some(rank=fields["rank"], world_size=fields["tp_size"],
                                tp_size=fields["tp_size"], pp_size=1, pcp_size=1, dcp_size=1),
                  **{name: fields[name] for name in (
                      "worker_kv_bytes_per_block", "kv_cache_layout", "canonical_layout",
                      "replicated_layout")})
    return _space.facts_of(config, fields["row"], None, fields["version"], fields["device"])


def test_whatever_changes_the_bits_changes_the_name():
    names = [_space.digest(offloading_config(**{name: value}), "w", None) for name, value in (
        ("row", 65536), ("row", 131072), ("dtype", "float32"), ("tokens_per_hash", 64),
        ("blocks_per_chunk", 2), ("rank", 1), ("tp_size", 2), ("layers", ["l0"]),
        ("kv_cache_layout", "BLHNC"), ("version", "0.31.0"), ("device", "cuda"))]
    names += [_space.digest(offloading_config(), weights, adapter)
              for weights, adapter in (("v", None), ("w", "lora-a"))]
    assert len(set(names)) == len(names)
    assert _space.digest(offloading_config(), "w", None) == names[0]


def test_weights_are_known_by_content(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(bytes(range(256)) * 1000)
    assert _space.fingerprint(str(one)) == _space.fingerprint(str(two))
    with (two / "model.safetensors").open("r+b") as file:
        file.seek(123_456)
        file.write(b"x")
    assert _space.fingerprint(str(one)) != _space.fingerprint(str(two))
    assert _space.folder_of(str(one), None) == str(one)


def test_large_weights_count_by_samples_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(_fingerprint, "WHOLE_MAX", 1000)
    file = tmp_path / "model.safetensors"
    file.write_bytes(bytes(1 << 20))
    os.utime(file, ns=(1, 1))
    first = _space.fingerprint(str(tmp_path))
    assert _space.fingerprint(str(tmp_path)) == first
    os.utime(file, ns=(2, 2))
    assert _space.fingerprint(str(tmp_path)) != first


def test_nothing_of_an_engine_is_imported():
    import spillway.vllm
    with pytest.raises(AttributeError):
        spillway.vllm.Nothing
    assert set(spillway.vllm.__all__) == {"SpillwayPolicy", "SpillwayTier", "SpillwayTieringSpec"}
