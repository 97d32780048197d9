# SPDX-License-Identifier: Apache-2.0
"""SpillwayConnector by the contract of LMCache's native_plugin."""

import os
import select

import pytest

import spillway
from spillway.lmcache import SpillwayConnector


@pytest.fixture
def connector():
    # On a busy machine, too, pressure is known.
    made = SpillwayConnector(capacity="64MiB", sample_period="2s")
    yield made
    made.close()


def finish(connector, number):
    """Waits by the eventfd, as LMCache does, for that one."""
    for _ in range(100):
        assert select.select([connector.event_fd()], [], [], 10)[0], "nothing within 10 s"
        for done in connector.drain_completions():
            if done[0] == number:
                return done
    raise AssertionError("it never came")


def test_store_look_load_delete(connector):
    chunks = [os.urandom(256 << 10) for _ in range(8)]
    keys = [f"model@0000000{at}@0@{at:x}" for at in range(8)]
    assert finish(connector, connector.submit_batch_set(
        keys, [memoryview(chunk) for chunk in chunks]))[1:] == (True, "", None)
    wanted = [*keys, "nobody"]
    assert finish(connector, connector.submit_batch_exists(wanted))[1:] == \
        (True, "", [True] * 8 + [False])
    buffers = [bytearray(256 << 10) for _ in wanted]
    number, ok, error, flags = finish(connector, connector.submit_batch_get(
        wanted, [memoryview(buffer) for buffer in buffers]))
    assert ok and error == "" and flags == [True] * 8 + [False]  # Misses are no failure.
    assert [bytes(buffer) for buffer in buffers[:8]] == chunks and not any(buffers[8])
    assert finish(connector, connector.submit_batch_delete([keys[0], "nobody"]))[1:] == \
        (True, "", [True, False])
    assert finish(connector, connector.submit_batch_exists(keys[:2]))[3] == [False, True]


def test_chunks_have_tokens_parents_and_agents(connector):
    keys = [f"model@{rank:08x}@0@{at:04x}@user7" for at in range(6) for rank in (0, 1)]
    finish(connector, connector.submit_batch_exists(keys))  # The order of the prompt.
    for first in (0, 4, 8):  # Stored in parts.
        part = keys[first:first + 4]
        finish(connector, connector.submit_batch_set(part, [memoryview(bytes(1000))] * 4))
    cache = connector._cache
    assert cache.total_tokens == 12 * 256
    assert {entry.agent for entry in cache.entries()} == {"user7"}
    for rank in (0, 1):
        chain = [key for key in keys if f"@{rank:08x}@" in key]
        assert cache.match(chain) == 6
        order = [key for key in cache.leaving_order() if key in chain]
        assert order == chain[::-1]  # From the end.


def test_what_is_remembered_of_chains_is_bounded():
    from spillway.lmcache import _Chains
    chains = _Chains(most=100)
    chains.learn([f"m@0@0@{at:x}" for at in range(1000)])
    assert chains.parent("m@0@0@3e7") == "m@0@0@3e6"
    assert chains.parent("m@0@0@1") is None and len(chains._parents) == 100
    chains.learn(["a", "a", "b"])  # Keys that are not LMCache's are no harm.
    assert chains.parent("b") is None and chains.parent("a") is None


def test_the_eventfd_is_quiet_when_nothing_waits(connector):
    assert not select.select([connector.event_fd()], [], [], 0)[0]
    number = connector.submit_batch_set(["k"], [memoryview(b"v")])
    finish(connector, number)
    assert not select.select([connector.event_fd()], [], [], 0)[0]
    assert connector.drain_completions() == []


def test_many_in_flight(connector):
    numbers = {connector.submit_batch_set([f"k{at}"], [memoryview(bytes([at % 256]) * 1000)])
               for at in range(300)}
    assert len(numbers) == 300
    while numbers:
        assert select.select([connector.event_fd()], [], [], 10)[0]
        for number, ok, *_ in connector.drain_completions():
            assert ok
            numbers.remove(number)


def test_pressure_forgets_and_does_not_fail(connector):
    connector._cache.apply(0.97)
    assert finish(connector, connector.submit_batch_set(["k"], [memoryview(b"v")]))[1] is True
    assert finish(connector, connector.submit_batch_exists(["k"]))[3] == [False]


def test_wrong_use_is_named(connector):
    with pytest.raises(spillway.InvalidArgument, match="as many"):
        connector.submit_batch_set(["a", "b"], [memoryview(b"v")])
    with pytest.raises(spillway.KeyTypeError):
        connector.submit_batch_exists([3])
    number, ok, error, _ = finish(connector, connector.submit_batch_set(
        ["large"], [memoryview(bytes(100 << 20))]))
    assert not ok and "large" in error
    small = bytearray(1)
    finish(connector, connector.submit_batch_set(["k"], [memoryview(b"12345")]))
    done = finish(connector, connector.submit_batch_get(["k"], [memoryview(small)]))
    assert done[1] is False and done[3] == [False]
    connector.close()
    connector.close()
    with pytest.raises(spillway.Closed):
        connector.submit_batch_exists(["k"])
