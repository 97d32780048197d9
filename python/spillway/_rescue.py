# SPDX-License-Identifier: Apache-2.0
"""OOM rescue, the Python part: builds the hook for the installed torch, and tells which kind is
active. Without a compiler it uses the named fallback: catch, reclaim, retry.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from ctypes import c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch
from torch.utils import cpp_extension

from . import _native as native
from ._cache import Cache, cache_of
from ._values import milliseconds, whole
from .errors import InvalidArgument, Unavailable

SOURCE = Path(__file__).with_name("_rescue.cpp")
_built: dict[str, ctypes.CDLL] = {}
_active: dict[str, Any] = {}


class RescueStats(NamedTuple):
    """Counters of the hook."""

    asked: int        # Times torch found no cached block and asked us.
    rescues: int      # Times we reclaimed.
    freed: int        # Bytes, by that.
    failures: int     # Out of memory all the same.
    last_failed: int  # Bytes that were wanted then.


def _cuda_include() -> str:
    """The folder of cuda_runtime_api.h: in a toolkit, or in the packages of torch."""
    candidates = [Path(home) / "include" for home in
                  (os.environ.get("CUDA_HOME"), cpp_extension.CUDA_HOME, "/usr/local/cuda") if home]
    site = Path(torch.__file__).parent.parent
    candidates += sorted(site.glob("nvidia/*/include"))
    candidates += sorted(Path("/usr/local").glob("cuda-*/include"))
    for folder in candidates:
        if (folder / "cuda_runtime_api.h").exists():
            return str(folder)
    raise Unavailable("cuda_runtime_api.h is nowhere: not in CUDA_HOME, /usr/local/cuda or the "
                      "nvidia packages beside torch")


def command(output: str, cuda_include: str | None = None) -> list[str]:
    """The command that compiles the hook."""
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    library = Path(torch.__file__).parent / "lib"
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    return [cpp_extension.get_cxx_compiler(), "-std=c++20", "-O2", "-shared", "-fPIC",
            "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *includes,
            f"-I{cuda_include or _cuda_include()}", str(SOURCE), f"-L{library}", "-lc10_cuda",
            "-lc10", "-o", output]


def _folder() -> Path:
    base = Path(os.environ.get("SPILLWAY_CACHE_DIR") or
                Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spillway")
    try:
        base.mkdir(parents=True, exist_ok=True)
        return base
    except OSError:
        return Path(tempfile.mkdtemp(prefix="spillway-"))


def build() -> ctypes.CDLL:
    """The hook, compiled once for each version of torch and of its source."""
    text = SOURCE.read_bytes() + SOURCE.with_name("_rescue_hook.h").read_bytes()
    mark = hashlib.sha256(text + torch.__version__.encode()).hexdigest()[:16]
    if mark in _built:
        return _built[mark]
    path = _folder() / f"rescue-{mark}.so"
    if not path.exists():
        made = f"{path}.{os.getpid()}"
        try:
            done = subprocess.run(command(made), capture_output=True, text=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"the hook could not be compiled: {error}") from None
        if done.returncode:
            raise Unavailable("the hook could not be compiled: " + done.stderr[-2000:])
        os.replace(made, path)  # Atomic: complete or not at all.
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"the hook could not be loaded: {error}") from None
    library.spillway_rescue_install.argtypes = [c_void_p, c_void_p, c_int, c_uint64, c_int64, c_int]
    library.spillway_rescue_install.restype = c_int
    library.spillway_rescue_remove.restype = None
    library.spillway_rescue_read.argtypes = [ctypes.POINTER(c_uint64)]
    library.spillway_rescue_read.restype = None
    _built[mark] = library
    return library


class Rescue:
    """An installed rescue; a context manager. ``kind`` tells which one is active:

    "allocator": torch's allocator is hooked and reports how much it needs; "allocator-reserve":
    hooked, but sizes are unknown, so ``reserve`` is kept free; "retry": the fallback, for calls by
    ``run`` or under ``retry`` (``why`` says what was missing).
    """

    def __init__(self, cache: Cache, reserve: int, within: float, sizes: bool, hook: bool):
        cache_of(cache)
        reserve, within_ms = whole(reserve, "reserve"), milliseconds(within, "within")
        if not cache.device.startswith(("cuda", "hip")):
            raise InvalidArgument(f'the cache is on device "{cache.device}": there is no GPU '
                                  'memory of torch\'s to rescue; open it with device="cuda:0"')
        if not torch.cuda.is_available():
            raise Unavailable("torch finds no GPU here: there is nothing to rescue")
        if _active:
            raise InvalidArgument("a rescue is installed already; remove() it first")
        self.cache, self.why = cache, ""
        self.kind = "retry"
        self.within = within
        self._library: ctypes.CDLL | None = None
        self.failures = 0
        number = cache.device.partition(":")[2]
        self.device = int(number) if number.isdigit() else 0
        if hook:
            try:
                self._library = build()
            except Unavailable as error:
                self.why = str(error)
        else:
            self.why = "hook=False"
        if self._library is not None:
            torch.cuda.init()
            code = self._library.spillway_rescue_install(
                cache._handle.pointer,
                ctypes.cast(native.lib.spillway_cache_reclaim, c_void_p), self.device,
                reserve, within_ms, 1 if sizes else 0)
            self.kind = {2: "allocator", 1: "allocator-reserve"}[code]
        _active["rescue"] = self
        cache._handle.closers.append(self.remove)  # A closed cache has no memory to give.

    def remove(self) -> None:
        """Removes the rescue. Called before the cache is closed. May be repeated."""
        if _active.get("rescue") is not self:
            return
        del _active["rescue"]
        if self._library is not None:
            self._library.spillway_rescue_remove()

    def stats(self) -> RescueStats:
        """Counters since the first installation in this process."""
        if self._library is None:
            return RescueStats(0, 0, 0, self.failures, 0)
        counters = (c_uint64 * 5)()
        self._library.spillway_rescue_read(counters)
        return RescueStats(*counters)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the function. Out of memory: reclaims, and calls it again, up to three times."""
        return retry(self.cache, within=self.within)(function)(*args, **kwargs)

    def __enter__(self) -> Rescue:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<spillway.torch.Rescue: {self.kind}{', ' + self.why if self.why else ''}>"


def retry(cache: Cache, *, within: float = 2.0, times: int = 3) -> Callable[..., Any]:
    """A decorator, the fallback: out of memory reclaims from the cache and calls the function
    again.

    The function starts again from its beginning, so it must be safe to repeat.
    """
    cache_of(cache)
    times = whole(times, "times")
    milliseconds(within, "within")  # Refused here rather than in the middle of a rescue.

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            share = 4
            for left in range(times, -1, -1):
                try:
                    return function(*args, **kwargs)
                except torch.cuda.OutOfMemoryError:
                    # The size needed is unknown: reclaim a quarter of what the cache holds, then
                    # half, then all.
                    held = cache.stats().get("device", {}).get("held", 0)
                    if not left or not cache.reclaim(max(held // share, 1 << 30), within).freed:
                        raise
                    share = max(1, share // 2)
            raise AssertionError("unreachable")
        return call
    return wrap
