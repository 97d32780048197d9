# SPDX-License-Identifier: Apache-2.0
"""Cache: keys, values, leases, pressure, and what is refused."""

import array
import asyncio
import gc
import importlib
import random
import threading
from datetime import timedelta

import pytest

import spillway
from spillway.compat import VRAMAwareCache


def test_a_value_comes_back_as_a_read_only_view(cache):
    assert cache.set("k", b"hello", tokens=5) is True
    view = cache.get("k")
    assert bytes(view) == b"hello" and view.readonly
    assert cache.total_tokens == 5 and len(cache) == cache.size == 1
    assert cache.get("nowhere") is None


def test_token_count_is_an_alias_of_tokens(cache):
    cache.set("a", b"x", token_count=7)
    assert cache.total_tokens == 7
    cache.set("b", b"x", 3)
    assert cache.total_tokens == 10
    with pytest.raises(spillway.InvalidArgument, match="same argument"):
        cache.set("c", b"x", tokens=1, token_count=2)
    with pytest.raises(spillway.InvalidArgument, match="whole number"):
        cache.set("c", b"x", tokens=1.5)


@pytest.mark.parametrize("value", [bytearray(b"abcd"), memoryview(b"abcd"),
                                   array.array("B", b"abcd"), memoryview(b"abcd").cast("H")])
def test_buffers_are_values(cache, value):
    cache.set("k", value)
    assert bytes(cache.get("k")) == b"abcd"


def test_scattered_buffers_are_stored_dense(cache):
    cache.set("k", memoryview(b"a-b-c-")[::2])
    assert bytes(cache.get("k")) == b"abc"


def test_numpy_in_and_out_without_a_copy(cache):
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    cache.set("k", values)
    back = numpy.frombuffer(cache.get("k"), dtype=numpy.float32).reshape(3, 4)
    assert (back == values).all() and not back.flags.owndata
    into = numpy.zeros(12, dtype=numpy.float32)
    assert cache.get("k", into=into) == 48
    assert (into.reshape(3, 4) == values).all()


def test_empty_values_and_binary_keys(cache):
    cache.set(b"\xff\x00", b"")
    assert bytes(cache.get(b"\xff\x00")) == b"" and cache.keys() == [b"\xff\x00"]


@pytest.mark.parametrize("key", [None, 3, 1.5, ["k"], object()])
def test_a_key_of_the_wrong_type_is_named(cache, key):
    for call in (cache.get, cache.delete, cache.contains, cache.touch, cache.lease, cache.explain):
        with pytest.raises(spillway.KeyTypeError, match="it must be str or bytes"):
            call(key)
    with pytest.raises(spillway.KeyTypeError):
        cache.set(key, b"x")


def test_keys_have_bounds(cache):
    with pytest.raises(spillway.InvalidArgument):
        cache.set("", b"x")
    with pytest.raises(spillway.InvalidArgument):
        cache.set("k" * 65537, b"x")


@pytest.mark.parametrize("value", ["text", 3, None, object(), [b"x"]])
def test_a_value_without_bytes_is_named(cache, value):
    with pytest.raises(spillway.ValueTypeError):
        cache.set("k", value)
    assert "k" not in cache


def test_dict_like_where_honest(cache):
    cache["k"] = b"v"
    assert "k" in cache and bytes(cache["k"]) == b"v" and list(cache) == ["k"]
    del cache["k"]
    with pytest.raises(KeyError):
        cache["k"]
    with pytest.raises(KeyError):
        del cache["k"]
    assert cache  # An empty one is a cache all the same.


def test_lease_facts_and_release(cache):
    cache.set("k", b"value", tokens=4, agent="planner", meta=b"m")
    with cache.lease("k") as lease:
        assert (lease.tokens, lease.agent, lease.meta, len(lease)) == (4, "planner", b"m", 5)
        assert lease.generation == 1 and not lease.on_device and bytes(lease) == b"value"
        assert cache.stats()["leases"] == 1
    assert cache.stats()["leases"] == 0
    for use in (lambda: lease.view, lambda: lease.tokens, lambda: len(lease), lease.__enter__):
        with pytest.raises(spillway.LeaseReleased):
            use()
    assert lease.release() is True  # Twice is fine.


def test_a_lease_keeps_its_generation(cache):
    cache.set("k", b"old")
    lease = cache.lease("k")
    cache.set("k", b"new")
    cache.delete("k")
    assert bytes(lease) == b"old"


def test_a_view_in_use_keeps_the_bytes(cache):
    cache.set("k", b"x" * 1000)
    lease = cache.lease("k")
    part = lease.view[10:20]
    assert lease.release() is False
    assert bytes(part) == b"x" * 10 and cache.stats()["leases"] == 1
    del part
    gc.collect()
    assert cache.stats()["leases"] == 0


def test_views_outlive_the_cache():
    cache = spillway.Cache(capacity="1MiB")
    cache.set("k", b"still here")
    view = cache.get("k")
    cache.close()
    assert bytes(view) == b"still here"


def test_use_after_close(cache):
    cache.close()
    cache.close()
    assert cache.closed and "closed" in repr(cache)
    for call in (lambda: cache.get("k"), lambda: cache.set("k", b""), cache.clear, cache.stats,
                 lambda: len(cache), lambda: cache.mode, lambda: cache.step_graph):
        with pytest.raises(spillway.Closed):
            call()


def test_into_a_buffer_that_does_not_fit(cache):
    cache.set("k", b"12345")
    small = bytearray(3)
    with pytest.raises(spillway.InvalidArgument, match="3 bytes"):
        cache.get("k", into=small)
    with pytest.raises(spillway.InvalidArgument, match="read-only"):
        cache.get("k", into=b"12345")
    with pytest.raises(spillway.ValueTypeError):
        cache.get("k", into=3)
    large = bytearray(8)
    assert cache.get("k", into=large) == 5 and large[:5] == b"12345"
    assert cache.get("nowhere", into=large) is None


def test_many_keys(cache):
    for at in range(4):
        cache.set(f"k{at}", bytes([at]), parent=f"k{at - 1}" if at else None)
    assert cache.match(["k0", "k1", "k2", "k3", "k4"]) == 4
    assert cache.contains_many(["k1", "nobody", "k3"]) == [True, False, True]
    leases = cache.get_many(["k0", "nobody"])
    assert bytes(leases[0]) == b"\x00" and leases[1] is None
    assert [bytes(lease) for lease in cache.get_chain(["k0", "k1", "x"])] == [b"\x00", b"\x01"]
    assert cache.prefetch(["k0"]) == 1
    with pytest.raises(spillway.InvalidArgument, match="list of keys"):
        cache.match("k0")
    assert cache.match([]) == 0


def test_touch_tells_what_is_known(cache):
    cache.set("k", b"x")
    assert cache.touch("k", hint="again", eta=timedelta(seconds=5)) is True
    assert cache.touch("nobody") is False
    with pytest.raises(spillway.InvalidArgument, match="again"):
        cache.touch("k", hint="soon")
    with pytest.raises(spillway.InvalidArgument, match="which step"):
        cache.touch("k", run="r")
    cache.step_graph.load({"run": "r", "steps": [{"id": "plan"}, {"id": "act"}],
                           "edges": [{"from": "plan", "to": "act"}]})
    cache.touch("k", agent="act", run="r", step="plan")
    assert cache.step_graph.steps_to_execution("r", "act") == 1
    assert "act" in cache.step_graph.explain("k")


def test_what_is_said_of_the_next_use_reaches_the_score():
    with spillway.Cache(capacity="1MiB", policy="score", start=False) as cache:
        cache.set("k", b"x", tokens=100, hint="again", eta=30, step="tool", recompute=2.5)
        said = cache.explain("k")
        assert "waits for tool" in said and "said to be used again" in said
        assert "A miss would cost 2.5 s." in said
        assert bytes(cache.get("k", step="human")) == b"x"
        assert "waits for human" in cache.explain("k")
        into = bytearray(1)
        assert cache.get("k", into=into, step="build", hint="done") == 1
        assert "waits for build, said to be done" in cache.explain("k")
        assert cache.touch("k", step="test") is True
        assert "waits for test" in cache.explain("k")
        assert len(cache.get_chain(["k", "nowhere"], step="chain", hint="again")) == 1
        assert "waits for chain, said to be used again" in cache.explain("k")
        with pytest.raises(spillway.InvalidArgument, match="recompute"):
            cache.set("k", b"x", recompute=-1)
        with pytest.raises(spillway.KeyTypeError, match="step"):
            cache.get("k", step=3)


def test_pressure_blocks_and_says_so(cache):
    cache.set("k", b"x")
    cache.apply(0.97)
    assert cache.mode is spillway.Mode.EMERGENCY and cache.is_blocked
    assert cache.set("other", b"x") is False
    with pytest.raises(spillway.Blocked, match="emergency"):
        cache.set("other", b"x", strict=True)
    with pytest.raises(spillway.Blocked):
        cache["other"] = b"x"
    assert bytes(cache.get("k")) == b"x"  # Reading is never refused.
    with pytest.raises(spillway.InvalidArgument):
        cache.apply(1.5)


def test_the_budget_refuses(cache):
    with spillway.Cache(capacity="1MiB", token_budget=10) as small:
        assert small.set("k", b"x", tokens=11) is False
        with pytest.raises(spillway.OverBudget):
            small.set("k", b"x", tokens=11, strict=True)
        with pytest.raises(spillway.TooLarge):
            small.set("k", bytes(2 << 20))


def test_settings_are_checked_by_name():
    with pytest.raises(spillway.InvalidArgument, match="did you mean 'capacity'"):
        spillway.Cache(capacty="1MiB")
    with pytest.raises(spillway.InvalidArgument, match="1 lemon"):
        spillway.Cache(capacity="1 lemon")
    with pytest.raises(spillway.InvalidArgument, match="a setting is"):
        spillway.Cache(capacity=object())
    with spillway.Cache(capacity=1 << 20, ttl=None, thresholds={"pressure": 0.8},
                        dwell=timedelta(seconds=1)) as cache:
        assert cache.stats()["device"]["capacity"] == 1 << 20


def test_no_gpu_is_said():
    with pytest.raises(spillway.SpillwayError, match="cuda"):
        spillway.Cache(device="cuda:0")


@pytest.mark.parametrize("old, new", [("write_behind_after", "write_back_after"),
                                      ("write_behind_rate", "write_back_rate")])
def test_an_old_name_of_a_setting_is_an_error_with_the_new_one(old, new):
    with pytest.raises(spillway.InvalidArgument, match=f"'{old}': it is now {new}$"):
        spillway.Cache(**{old: "none"})
    with spillway.Cache(capacity="1MiB", **{new: "none"}):
        pass


def test_a_config_file(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('capacity = "1MiB"\n')
    with spillway.Cache(config=path) as cache:
        assert cache.set("k", b"x")
    path.write_text("capacity = 3 lemons\n")
    with pytest.raises(spillway.InvalidArgument, match="s.toml:1"):
        spillway.Cache(config=path)
    with pytest.raises(spillway.Unavailable, match="No such file"):
        spillway.Cache(config=tmp_path / "nothing.toml")
    with pytest.raises(spillway.InvalidArgument, match="not from both"):
        spillway.Cache(config=path, capacity="1MiB")


def test_answers(cache):
    cache.set("a", b"1", tokens=2, agent="x")
    entry = cache.entries()[0]
    assert (entry.key, entry.agent, entry.tokens, entry.bytes) == ("a", "x", 2, 1)
    assert "device tier" in cache.explain("a") and "not here" in cache.explain("b")
    assert cache.leaving_order() == ["a"]
    assert cache.reclaim(1).freed == 0 and "last copy" in cache.reclaim(1).why_not_more
    assert cache.pressure is None or 0 <= cache.pressure <= 1
    cache.clear()
    assert len(cache) == 0


def test_departures_have_a_cause():
    with spillway.Cache(preset="seed", start=False) as cache:
        for at in range(4):
            cache.set(f"k{at}", b"x", tokens=100 - at)
        left = cache.apply(0.9)
        assert [(gone.key, gone.reason, gone.action) for gone in left] == \
            [("k0", "heavy", "destroy")]


def test_what_leaves_comes_back(tiers):
    values = {f"k{at}": bytes([at]) * 300_000 for at in range(200)}
    for key, value in values.items():
        tiers.set(key, value, strict=True)
    for key, value in values.items():
        assert bytes(tiers.get(key)) == value
    stats = tiers.stats()
    assert stats["disk"]["bytes"] > 0 and stats["moves"]["fetches"] > 0
    with pytest.raises(spillway.NotResident):
        for key in values:
            tiers.get(key, wait=0)


def test_threads(cache):
    errors = []

    def work(number):
        try:
            for at in range(200):
                key = f"{number}-{at % 10}"
                cache.set(key, bytes([number]) * 1000)
                value = cache.get(key)
                if value is not None and bytes(value[:1]) != bytes([number]):
                    errors.append(key)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_close_waits_for_calls_of_other_threads():
    cache = spillway.Cache(capacity="8MiB")
    closed = []

    def work():
        while True:
            try:
                cache.set("k", b"x" * 1000)
            except spillway.Closed:
                closed.append(True)
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    cache.close()
    for thread in threads:
        thread.join(30)
    assert len(closed) == 4


def test_version():
    assert spillway.__version__.count(".") == 2


def each_way_to_set(cache):
    """All that set in this package and answer with False where nothing is taken."""
    asynchronous = spillway.AsyncCache(capacity="1MiB", start=False)
    seed = VRAMAwareCache(capacity="1MiB")
    for made in (asynchronous, seed._cache):
        made.sync.close()
        made.sync = cache
    yield lambda key, value: cache.set(key, value)
    yield lambda key, value: asyncio.run(asynchronous.set(key, value))
    yield lambda key, value: asyncio.run(seed.set(key, value, 0))
    try:
        put, torch = importlib.import_module("spillway.torch").put, importlib.import_module("torch")
    except ImportError:
        return
    yield lambda key, value: put(cache, key, torch.ones(len(value), dtype=torch.uint8))


def test_a_set_while_all_memory_is_leased_is_false_and_no_exception():
    refused = set()
    for seed in range(8):
        rng = random.Random(seed)
        with spillway.Cache(capacity="1MiB", start=False) as cache:
            ways, leases = list(each_way_to_set(cache)), []
            for at in range(300):
                value = b"x" * rng.choice((10, 1_000, 5_000, 70_000, 300_000))
                try:
                    cache.set(f"k{at}", value, strict=True)
                    leases.append(cache.lease(f"k{at}"))
                except (spillway.Refused, spillway.NoMemory) as why:
                    first = type(why) not in refused
                    refused.add(type(why))
                    for way in ways if first else ways[:1]:
                        assert way(f"k{at}", value) is False and not cache.contains(f"k{at}")
            assert len(leases) > 10
    # Sizes are mixed so that both come: no room, and room in pieces that are too small.
    assert refused == {spillway.Blocked, spillway.NoMemory}
