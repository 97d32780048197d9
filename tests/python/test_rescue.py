# SPDX-License-Identifier: Apache-2.0
"""The hook into torch's allocator: the entry it replaces is the right one, in the torch installed.

There is no GPU here, so it is tried on torch's CPU allocator, whose class has the same base.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from conftest import ROOT  # noqa: E402

PROGRAM = r"""
#include <cstdio>
#include <c10/core/CPUAllocator.h>
#include "_rescue_hook.h"

static std::size_t noted = 0;
static spillway_rescue::Allocate was = nullptr;
static c10::DataPtr Noting(c10::Allocator* self, std::size_t bytes) {
  noted = bytes;
  return was(self, bytes);
}

int main() {
  c10::Allocator* allocator = c10::GetCPUAllocator();
  const int before = spillway_rescue::ProtectionOf(
      reinterpret_cast<std::uintptr_t>(spillway_rescue::EntryOfAllocate(allocator)));
  if (!spillway_rescue::HookAllocate(allocator, Noting, &was)) return 2;
  const int after = spillway_rescue::ProtectionOf(
      reinterpret_cast<std::uintptr_t>(spillway_rescue::EntryOfAllocate(allocator)));
  c10::DataPtr data = allocator->allocate(12345);
  static_cast<char*>(data.get())[12344] = 1;
  std::printf("%zu %d\n", noted, before == after);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_the_entry_of_allocate_is_found(tmp_path):
    source, program = tmp_path / "hook.cc", tmp_path / "hook"
    source.write_text(PROGRAM)
    base = Path(torch.__file__).parent
    built = subprocess.run(
        ["g++", "-std=c++20", "-O1", source, f"-I{base / 'include'}",
         f"-I{ROOT / 'python/spillway'}",
         f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", f"-L{base / 'lib'}",
         f"-Wl,-rpath,{base / 'lib'}", "-lc10", "-o", program], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "12345 1\n"), done.stderr


def test_what_compiles_it_is_told():
    from spillway import _rescue
    command = _rescue.command("out.so", "/cuda/include")
    assert "-lc10_cuda" in command and "-I/cuda/include" in command
    assert Path(command[command.index("-I/cuda/include") + 1]).exists()


def test_without_cuda_headers_it_says_so(monkeypatch):
    import spillway
    from spillway import _rescue
    monkeypatch.setattr(_rescue, "_built", {})
    monkeypatch.setenv("SPILLWAY_CACHE_DIR", "/dev/null/nowhere")
    if torch.cuda.is_available():
        pytest.skip("this machine may have them")
    with pytest.raises(spillway.Unavailable, match="cuda_runtime_api.h|compiled"):
        _rescue.build()
