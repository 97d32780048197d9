# SPDX-License-Identifier: Apache-2.0
"""Processes: forks, signals, the interpreter's end, and nothing left behind.

Where a value must be taken, sample_period is long: on a busy machine, too, pressure is known.
"""

import gc
import os
import threading
import time
import types

import spillway
from conftest import run_python


def _rss_and_fds():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd"))


def test_a_child_is_refused_and_opens_its_own():
    out = run_python("""
import os, spillway
cache = spillway.Cache(capacity="8MiB", sample_period="2s")
cache.set("k", b"parent")
lease = cache.lease("k")
pid = os.fork()
if pid == 0:
    try:
        cache.get("k")
    except spillway.Closed as error:
        assert "forked" in str(error)
    else:
        os._exit(3)
    lease.release()
    with spillway.Cache(capacity="8MiB", sample_period="2s") as own:
        own.set("k", b"child")
        assert bytes(own.get("k")) == b"child"
    cache.close()
    del lease, cache
    raise SystemExit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert bytes(lease) == b"parent" and bytes(cache.get("k")) == b"parent"
print("fine")
""")
    assert out == "fine\n"


def test_multiprocessing_by_fork_and_spawn():
    out = run_python("""
import multiprocessing, os, spillway

def work(queue):
    with spillway.Cache(capacity="1MiB", sample_period="2s") as cache:
        cache.set("k", b"v")
        queue.put(bytes(cache.get("k")))

cache = spillway.Cache(capacity="1MiB", sample_period="2s")
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=work, args=(queue,))
process.start()
print(queue.get(timeout=30))
process.join(30)
assert process.exitcode == 0
""")
    assert out == "b'v'\n"


def test_exit_with_everything_open():
    assert run_python("""
import asyncio, spillway, threading
cache = spillway.Cache(capacity="8MiB", sample_period="2s")
cache.set("k", bytes(1000))
view, lease = cache.get("k"), cache.lease("k")
graph = cache.step_graph
threading.Thread(target=lambda: [cache.get("k") for _ in range(1000)], daemon=True).start()
keep = spillway.AsyncCache(capacity="1MiB", sample_period="2s")
async def main():
    await keep.set("k", b"v")
asyncio.run(main())
print("end")
""") == "end\n"


def test_exit_with_a_tensor_of_a_lease():
    import pytest
    pytest.importorskip("torch")
    assert run_python("""
import spillway, torch
cache = spillway.Cache(capacity="8MiB", sample_period="2s")
cache.set("k", torch.arange(10))
tensor = torch.from_dlpack(cache.lease("k").dlpack(0, 64, [10]))
cache.close()
print(int(tensor.sum()))
""") == "45\n"


def test_signals_are_the_programs():
    assert run_python("""
import os, signal, spillway, time
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
with spillway.Cache(capacity="8MiB", sample_period="2s") as cache:
    for _ in range(50):
        os.kill(os.getpid(), signal.SIGUSR1)
        cache.set("k", bytes(10000))
print(len(seen) > 0)
""") == "True\n"


def test_keyboard_interrupt_leaves_it_whole():
    assert run_python("""
import os, signal, spillway, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's `&` leaves it ignored.
cache = spillway.Cache(capacity="8MiB", sample_period="2s")
ended = threading.Event()
def interrupt():
    pause = 0.2
    while not ended.wait(pause):
        os.kill(os.getpid(), signal.SIGINT)
        pause = 5  # Python itself loses one that comes while it frees an object.
threading.Thread(target=interrupt, daemon=True).start()
try:
    while True:
        cache.set("k", bytes(1000))
except KeyboardInterrupt:
    ended.set()
assert cache.set("k", b"after") and bytes(cache.get("k")) == b"after"
cache.close()
print("fine")
""") == "fine\n"


def test_a_call_that_an_interrupt_cut_off_does_not_keep_it_open():
    # As if the interrupt came between entering and the call, where nothing leaves again.
    cache = spillway.Cache(capacity="8MiB")
    cache._use.__enter__()
    began = time.monotonic()
    cache.close()
    assert cache.closed and time.monotonic() - began < 10


def test_close_waits_for_a_call_that_goes_on():
    cache = spillway.Cache(capacity="8MiB")
    entered, leave = threading.Event(), threading.Event()
    inside = types.FunctionType(  # A function of the package's, as far as its stack tells.
        compile("entered.set(); leave.wait(30)", spillway._handle.__file__, "exec"),
        {"entered": entered, "leave": leave})

    def call():
        with cache._use:
            inside()

    calling = threading.Thread(target=call)
    calling.start()
    assert entered.wait(30)
    closing = threading.Thread(target=cache.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive() and not cache.closed
    leave.set()
    closing.join(30)
    calling.join(30)
    assert cache.closed


def test_open_set_get_close_is_flat():
    def cycles(count):
        for at in range(count):
            with spillway.Cache(capacity="1MiB", start=at % 4 == 0, sample_period="2s") as cache:
                cache.set("k", b"v" * 100)
                assert len(cache.get("k")) == 100

    cycles(60)
    gc.collect()
    before, fds = _rss_and_fds()
    cycles(300)
    gc.collect()
    after, fds_after = _rss_and_fds()
    assert fds_after <= fds
    assert after - before < 8 << 20, f"{(after - before) >> 10} KiB more after 300 cycles"


def test_leases_and_views_leak_nothing():
    with spillway.Cache(capacity="8MiB", sample_period="2s") as cache:
        for at in range(3000):
            cache.set(f"k{at % 50}", bytes(at % 977))
            view = cache.get(f"k{at % 50}")
            part = view[: len(view) // 2]
            del view, part
        gc.collect()
        assert cache.stats()["leases"] == 0
