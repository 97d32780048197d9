# SPDX-License-Identifier: Apache-2.0
"""Which servers share states: those with the same program, arguments, files and environment.

llama.cpp checks a state's layout when it restores one, but not which weights, adapters or scaling it
was computed with. So all that the server is started with counts, the content of files in place of
their names. An option that changes nothing in the KV costs a recompute when it is changed; nothing
more.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil

from .. import _fingerprint

_PARTS = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


def files_of(argument: str) -> list[str]:
    """The files that an argument names: all parts of a model that is split."""
    parts = _PARTS.search(argument)
    if parts is None:
        return [argument] if os.path.isfile(argument) else []
    stem = glob.escape(argument[:parts.start()])
    return sorted(glob.glob(f"{stem}-[0-9][0-9][0-9][0-9][0-9]-of-{parts.group(1)}.gguf"))


def _content(paths: list[str]) -> str:
    total = hashlib.sha256()
    for path in paths:
        _fingerprint.add_file(total, path)
    return total.hexdigest()


def _meaning(argument: str) -> str:
    """An argument with the content of files in place of names: `FILE`, `--option=FILE`,
    `FILE:SCALE`, and lists of these.
    """
    found = []
    for piece in re.split(r"([,=])", argument):
        name, colon, rest = piece.rpartition(":")
        for path, end in ((piece, ""), (name, colon + rest)):
            files = files_of(path) if path else []
            if files:
                piece = _content(files) + end
                break
        found.append(piece)
    return "".join(found)


def namespace(command: list[str], environment: dict[str, str], model_id: str | None) -> str:
    """20 hexadecimal digits. Raises OSError if the program or a file can't be read."""
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]}: no such program")
    said = {name: _meaning(value) for name, value in environment.items()
            if name.startswith(("LLAMA_", "GGML_"))}
    facts = [1, _content([program]), [_meaning(one) for one in command[1:]],
             sorted(said.items()), model_id]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]
