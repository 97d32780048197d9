# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of a caller: none reaches the library but as it was meant."""

import inspect
import re
from importlib import import_module

import pytest

import spillway

TOO_LARGE = (2**31, 2**32 + 5, 2**63, 2**64 + 5, -1, -(2**63) - 1, -(2**64) + 5, 10**5000)
NO_NUMBERS = (2.5, "5", True, [5])


@pytest.fixture
def lease(cache):
    cache.set("lent", b"x" * 64)
    return cache.lease("lent")


def async_set(**tokens):
    import asyncio

    async def main():
        async with spillway.AsyncCache(capacity="1MiB", start=False) as made:
            return await made.set("k", b"x", **tokens)
    return asyncio.run(main())


def compat_set(number):
    import asyncio
    from spillway.compat import VRAMAwareCache

    async def main():
        made = VRAMAwareCache(capacity="1MiB")
        try:
            return await made.set("k", b"x", number)
        finally:
            await made.close()
    return asyncio.run(main())


# Every argument of the public package that is a whole number: where, its name, a call with it, the
# least and the most it may be.
CACHE_CALLS = {
    "Cache.set.tokens": (lambda cache, n: cache.set("k", b"x", tokens=n), "tokens", 0, 10**9),
    "Cache.set.token_count": (lambda cache, n: cache.set("k", b"x", token_count=n), "token_count",
                              0, 10**9),
    "Cache.reclaim.bytes": (lambda cache, n: cache.reclaim(n), "bytes", 0, 2**63 - 1),
    "AsyncCache.set.tokens": (lambda _, n: async_set(tokens=n), "tokens", 0, 10**9),
    "AsyncCache.set.token_count": (lambda _, n: async_set(token_count=n), "token_count", 0, 10**9),
    "VRAMAwareCache.__init__.max_token_budget": (
        lambda _, n: import_module("spillway.compat").VRAMAwareCache(n), "max_token_budget", 1,
        2**63 - 1),
    "VRAMAwareCache.set.token_count": (lambda _, n: compat_set(n), "tokens", 0, 10**9),
    "StepGraph.eviction_order.most": (
        lambda _, n: spillway.StepGraph().eviction_order(n), "most", 0, 2**63 - 1),
}
LEASE_CALLS = {
    "Lease.dlpack.code": (lambda lease, n: lease.dlpack(n), "code", 0, 255),
    "Lease.dlpack.bits": (lambda lease, n: lease.dlpack(bits=n), "bits", 1, 255),
    "Lease.dlpack.shape": (lambda lease, n: lease.dlpack(shape=[1, n]), "shape[1]", 0, 2**63 - 1),
    "Lease.dlpack.strides": (lambda lease, n: lease.dlpack(shape=[1, 1], strides=[1, n]),
                             "strides[1]", -(2**63) + 1, 2**63 - 1),
    "Lease.dlpack.offset": (lambda lease, n: lease.dlpack(offset=n), "offset", 0, 64),
    "Lease.dlpack.device_id": (lambda lease, n: lease.dlpack(device_id=n), "device_id", 0,
                               2**31 - 1),
}
CLIENT_CALLS = {
    "Client.__init__.port": (lambda _, n: spillway.Client(port=n), "port", 1, 65535),
    "Client.set.tokens": (lambda client, n: client.set("k", b"x", tokens=n), "tokens", 0, 10**9),
    "Client.set.token_count": (lambda client, n: client.set("k", b"x", token_count=n),
                               "token_count", 0, 10**9),
    "Client.reclaim.bytes": (lambda client, n: client.reclaim(n), "bytes", 0, 2**63 - 1),
}
# Of those that need torch: tests/python/test_torch.py and test_transformers.py.
ELSEWHERE = {"put.tokens", "put.token_count", "install_rescue.reserve", "retry.times",
             "attach.chunk", "save.chunk", "save_prefix.chunk", "load_prefix.chunk",
             "longest_prefix.chunk", "SpillwayConnector.__init__.chunk_tokens"}


def refuses(call, given, name, least, most):
    for number in TOO_LARGE:
        if least <= number <= most:
            continue
        with pytest.raises(ValueError) as said:
            call(given, number)
        assert isinstance(said.value, spillway.InvalidArgument), (name, number)
        words = str(said.value)
        assert words.startswith(f"{name} is ") and f"from {least} to {most}" in words, words
        assert number == 10**5000 or str(number) in words
    for number in NO_NUMBERS:
        with pytest.raises(ValueError, match=re.escape(f"{name} is {number!r}: it must be a whole")):
            call(given, number)


@pytest.mark.parametrize("what", CACHE_CALLS)
def test_a_number_out_of_its_range_is_refused_by_name(cache, what):
    refuses(CACHE_CALLS[what][0], cache, *CACHE_CALLS[what][1:])
    assert len(cache) == 0 and cache.total_tokens == 0


@pytest.mark.parametrize("what", LEASE_CALLS)
def test_a_tensors_numbers_out_of_range_are_refused_and_the_lease_stays(lease, what):
    refuses(LEASE_CALLS[what][0], lease, *LEASE_CALLS[what][1:])
    assert bytes(lease) == b"x" * 64


@pytest.mark.parametrize("what", CLIENT_CALLS)
def test_a_clients_numbers_out_of_range_are_refused_by_name(daemon, what):
    with spillway.Client(socket=daemon[0]) as client:
        refuses(CLIENT_CALLS[what][0], client, *CLIENT_CALLS[what][1:])


def test_a_chunk_of_lmcache_out_of_range_is_refused_by_name():
    from spillway.lmcache import SpillwayConnector
    refuses(lambda _, number: SpillwayConnector(chunk_tokens=number, capacity="8MiB"), None,
            "chunk_tokens", 0, 10**9)


def whole_numbers_of(module):
    """"Class.method.argument" of all that its own public calls take as int."""
    for item, thing in vars(module).items():
        own = item in spillway.__all__ if module is spillway else \
            getattr(thing, "__module__", "") == module.__name__
        if item.startswith("_") or not own:
            continue
        calls = {item: thing} if inspect.isfunction(thing) else {
            f"{item}.{name}": call for name, call in vars(thing).items()
            if inspect.isfunction(call) and (name == "__init__" or not name.startswith("_"))
        } if inspect.isclass(thing) else {}
        for path, call in calls.items():
            for argument in inspect.signature(call).parameters.values():
                if re.search(r"\bint\b", str(argument.annotation)):
                    yield f"{path}.{argument.name}"


def test_every_whole_number_of_the_package_is_in_these_tests():
    found = set()
    for name in ("spillway", "spillway.client", "spillway.compat", "spillway.graph",
                 "spillway.lmcache", "spillway.langgraph", "spillway.torch", "spillway._rescue",
                 "spillway.transformers"):
        try:
            found |= set(whole_numbers_of(import_module(name)))
        except spillway.NotInstalled:
            continue
        except ImportError:
            assert name == "spillway._rescue"  # It needs torch and does not say so itself.
    # What attach, install_rescue and the library make, not callers.
    made = {one for one in found if one.split(".")[0] in ("Attached", "Rescue", "Lease")
            and one not in LEASE_CALLS}
    named = set(CACHE_CALLS) | set(LEASE_CALLS) | set(CLIENT_CALLS) | ELSEWHERE
    assert found - made == {one for one in named if one in found} and len(found) > 15


def test_a_number_of_tokens_is_counted_as_it_is(cache):
    for number in (0, 5, 50_000_000):
        cache.set("k", b"x", tokens=number)
        assert cache.total_tokens == number

    class Five:
        def __index__(self):
            return 5
    cache.set("k", b"x", tokens=Five())
    assert cache.total_tokens == 5


@pytest.mark.parametrize("number", [2**63, 2**64 + 5, -(2**63) - 1])
def test_a_setting_beyond_64_bits_is_refused_by_name(number):
    with pytest.raises(ValueError, match=rf"entries_max is {number}: it must be from -\d+ to \d+"):
        spillway.Cache(entries_max=number)
    with pytest.raises(ValueError, match=f"thresholds.normal is {number}"):
        spillway.Cache(thresholds={"normal": number})


def test_strides_that_do_not_go_with_the_shape_are_refused(lease):
    with pytest.raises(spillway.InvalidArgument, match="strides has 1 numbers, shape 2"):
        lease.dlpack(shape=[2, 2], strides=[1])
    with pytest.raises(spillway.InvalidArgument, match="strides has 3 numbers, shape 2"):
        lease.dlpack(shape=[2, 2], strides=[1, 2, 3])


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 2**70, True, "5"])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout is "):
        spillway.Client(timeout=timeout)
