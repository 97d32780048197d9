#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/python_reference.py [--check]: docs/reference/python.md, from the sources' docstrings.

Reads the files and imports nothing, so that it needs neither the library nor torch.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/spillway"
PAGE = ROOT / "docs/reference/python.md"
# Module, the file that defines its names, and which names. None: all public ones.
PARTS = [
    ("spillway", "_cache.py", ["Cache"]),
    ("spillway", "_words.py", ["Mode", "Departure", "EntryInfo", "Reclaimed"]),
    ("spillway", "_lease.py", ["Lease"]),
    ("spillway", "_aio.py", ["AsyncCache"]),
    ("spillway", "graph.py", ["StepGraph"]),
    ("spillway", "client.py", ["Client", "RemoteGraph"]),
    ("spillway", "errors.py", None),
    ("spillway.graph", "graph.py", ["from_langgraph"]),
    ("spillway.langgraph", "langgraph.py", ["Cursor"]),
    ("spillway.compat", "compat.py", ["VRAMAwareCache"]),
    ("spillway.torch", "torch.py", ["put", "get", "install_rescue"]),
    ("spillway.torch", "_rescue.py", ["Rescue", "RescueStats", "retry"]),
    ("spillway.transformers", "transformers.py",
     ["attach", "Attached", "save", "load", "save_prefix", "load_prefix", "longest_prefix",
      "Loaded"]),
    ("spillway.lmcache", "lmcache.py", ["SpillwayConnector"]),
    ("spillway.vllm", "vllm/_tier.py", ["SpillwayTier"]),
    ("spillway.vllm", "vllm/_policy.py", ["SpillwayPolicy"]),
    ("spillway.vllm", "vllm/_spec.py", ["SpillwayTieringSpec"]),
    ("spillway.sglang", "sglang.py", ["SpillwayHiCache"]),
    ("spillway.engine_hints", "engine_hints.py", ["RequestHints"]),
]


def signature(node):
    """`name(arguments)`, without types."""
    arguments = node.args
    words = []
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults):
        if argument.arg in ("self", "cls"):
            continue
        words.append(argument.arg + (f"={ast.unparse(default)}" if default is not None else ""))
    if arguments.vararg:
        words.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        words.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        words.append(argument.arg + (f"={ast.unparse(default)}" if default is not None else ""))
    if arguments.kwarg:
        words.append("**" + arguments.kwarg.arg)
    return f"{node.name}({', '.join(words)})"


def is_property(node):
    return any(isinstance(mark, ast.Name) and mark.id == "property"
               for mark in node.decorator_list)


def is_setter(node):
    return any(isinstance(mark, ast.Attribute) and mark.attr == "setter"
               for mark in node.decorator_list)


def words(node):
    return " ".join((ast.get_docstring(node) or "").split())


def doc(node):
    """The docstring, with its examples as code."""
    text = ast.get_docstring(node) or ""
    lines, code = [], False
    for line in text.splitlines():
        example = line.startswith((">>>", "..."))
        if example != code:
            lines.append("```" if code else "```python")
            code = example
        lines.append(line[4:] if example else line)
    return "\n".join([*lines, "```"] if code else lines)


def class_lines(module, node):
    lines = [f"### `{module}.{node.name}`", "", doc(node), ""]
    made = next((member for member in node.body if isinstance(member, ast.FunctionDef)
                 and member.name == "__init__"), None)
    if made is not None:
        lines += [f"`{signature(made).replace('__init__', node.name, 1)}`", ""]
    rows = []
    for member in node.body:
        if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) or \
                member.name.startswith("_") or is_setter(member):
            continue
        shown = member.name if is_property(member) else signature(member)
        if isinstance(member, ast.AsyncFunctionDef):
            shown = "await " + shown
        rows.append(f"| `{shown}` | {words(member)} |".replace("\n", " "))
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    return lines


def page():
    lines = ["# Python reference", "",
             "<!-- Written by tools/python_reference.py from the docstrings; a test holds it to "
             "that. -->", "", "Start with [docs/python.md](../python.md).", ""]
    for module, file, names in PARTS:
        tree = ast.parse((PACKAGE / file).read_text())
        found = {node.name: node for node in tree.body
                 if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        if names is None:
            rows = [f"| `{node.name}` | {words(node)} |" for node in found.values()
                    if isinstance(node, ast.ClassDef)]
            lines += [f"### {module}: exceptions", "", "| | |", "|---|---|", *rows, ""]
            continue
        for name in names:
            node = found[name]
            if isinstance(node, ast.ClassDef):
                lines += class_lines(module, node)
            else:
                lines += [f"### {module}.{signature(node)}", "", doc(node), ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            print(f"{PAGE.relative_to(ROOT)} is not what the docstrings say: run "
                  "tools/python_reference.py")
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
