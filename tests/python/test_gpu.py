# SPDX-License-Identifier: Apache-2.0
"""Device memory through the package, on the fake GPU of the C++ tests: no card is needed.

Its memory is the host's behind a driver library that is loaded like the real one, so what is put
from and read into "device" addresses takes the way it takes on a card.
"""

import pytest

from conftest import BUILT, run_python

FAKE = BUILT / "tests/fakes/fake_gpu_cuda.so"


@pytest.fixture
def gpu(tmp_path):
    if not FAKE.exists():
        pytest.skip("the fake GPU is not built")
    (tmp_path / "libcuda.so.1").symlink_to(FAKE)

    def run(code):
        return run_python(PRELUDE + code, LD_LIBRARY_PATH=str(tmp_path),
                          SPILLWAY_FAKE_GPU="total 268435456; granularity 65536")
    return run


PRELUDE = """
import ctypes, gc, os, spillway
from spillway import _native as native
from spillway._values import fragments
cuda = ctypes.CDLL("libcuda.so.1")
cache = spillway.Cache(device="cuda:0", host_capacity="64MiB", reserve_bytes_min=0, start=False,
                       pressure_source="fixed:0.65", host_pressure_source="fixed:0.65",
                       sample_period="1s", capacity="64MiB")  # As conftest's CALM.
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
for name in ("spillway_fake_poke", "spillway_fake_peek"):
    getattr(cuda, name).restype = ctypes.c_bool
cuda.spillway_fake_misuse.restype = ctypes.c_char_p

def device_memory(size):
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer.value

def upload(address, data):
    assert cuda.spillway_fake_poke(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

def download(address, size):
    data = ctypes.create_string_buffer(size)
    assert cuda.spillway_fake_peek(ctypes.c_uint64(address), data, ctypes.c_size_t(size))
    return data.raw

def put(key, parts, order=None):
    return cache._put(key.encode(), fragments(parts, native.DEVICE, None),
                      {"tokens": 1}, True, order)

def get_into(key, parts):
    return cache._get_into(key.encode(), fragments(parts, native.DEVICE, None), None, None)
"""


def test_scattered_device_memory_goes_in_and_out(gpu):
    assert gpu("""
size = 300_000
data = os.urandom(size)
here, there = device_memory(2 * size), device_memory(2 * size)
upload(here, data[:100_000])
upload(here + size, data[100_000:])
assert put("k", [(here, 100_000), (here + size, 200_000)],
           native.Order(native.AFTER_STREAM, None))
assert bytes(cache.get("k")) == data              # As the host sees it.
assert get_into("k", [(there, 50_000), (there + size, 250_000)]) == size
assert download(there, 50_000) + download(there + size, 250_000) == data
with cache.lease("k", where="device") as lease:
    assert lease.on_device and download(lease.address, size) == data
    try:
        lease.view
    except spillway.NotResident as error:
        assert "dlpack" in str(error)
    exported = lease.dlpack()
    assert exported.__dlpack_device__() == (2, 0)
    capsule = exported.__dlpack__(max_version=(1, 1))
del capsule, exported
gc.collect()
assert cache.stats()["leases"] == 0
assert cuda.spillway_fake_misuse() == b"", cuda.spillway_fake_misuse()
print("fine")
""") == "fine\n"


def test_what_was_given_back_comes_up_again(gpu):
    assert gpu("""
cache.start()
address = device_memory(1 << 20)
data = {}
for at in range(12):
    data[f"k{at}"] = os.urandom(1 << 20)
    upload(address, data[f"k{at}"])
    put(f"k{at}", [(address, 1 << 20)])
freed = cache.reclaim(8 << 20, within=20)
assert freed.freed >= 8 << 20, freed
for key, value in data.items():
    assert get_into(key, [(address, 1 << 20)]) == 1 << 20
    assert download(address, 1 << 20) == value
assert cache.stats()["moves"]["corrupt"] == 0 and len(cache) == 12
cache.close()
assert cuda.spillway_fake_misuse() == b"", cuda.spillway_fake_misuse()
print("fine")
""") == "fine\n"
