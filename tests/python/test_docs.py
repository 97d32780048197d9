# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs as written, and the reference is complete."""

import inspect
import re
import subprocess
import sys

import pytest

import spillway
from conftest import ROOT, run_python

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:40])
def test_the_documents_code_runs(block):
    for package in ("torch", "transformers"):
        if f"import {package}" in block or f", {package}" in block:
            pytest.importorskip(package)
    assert run_python(block, PYTHONWARNINGS="default")


def test_the_agents_example_runs():
    out = run_python((ROOT / "examples/agents.py").read_text())
    assert "4 contexts" in out


def test_the_reference_is_written_from_the_docstrings():
    done = subprocess.run([sys.executable, ROOT / "tools/python_reference.py", "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _public(module):
    for name in module.__all__:
        thing = getattr(module, name)
        yield f"{module.__name__}.{name}", thing
        if inspect.isclass(thing):
            for inner, member in vars(thing).items():
                if not inner.startswith("_") and (callable(member) or isinstance(
                        member, (property, classmethod, staticmethod))):
                    yield f"{module.__name__}.{name}.{inner}", member


def test_everything_public_has_a_docstring():
    bare = [name for name, thing in _public(spillway)
            if (callable(thing) or isinstance(thing, property)) and not inspect.getdoc(thing)]
    assert not bare


def test_it_is_typed():
    assert (ROOT / "python/spillway/py.typed").exists()
