# SPDX-License-Identifier: Apache-2.0
"""A hash over a file of weights, which need not be read whole."""

from __future__ import annotations

import os
from typing import Any

WHOLE_MAX = 64 << 20   # Bytes of a file that is read whole.
WINDOWS, WINDOW = 256, 4096


def add_file(total: Any, path: str) -> None:
    """Adds a file to the hash `total`.

    Up to 64 MiB it is read whole. Of a larger one 256 windows of 4 KiB are read, and its time of
    change counts as well, unless its name in the hub's cache already is the hash of its content.
    """
    path = os.path.realpath(path)
    about = os.stat(path)
    total.update(f"{about.st_size}\0".encode())
    if os.path.basename(os.path.dirname(path)) == "blobs":
        total.update(os.path.basename(path).encode())
        return
    with open(path, "rb") as file:
        if about.st_size <= WHOLE_MAX:
            while piece := file.read(1 << 20):
                total.update(piece)
            return
        total.update(f"{about.st_mtime_ns}\0".encode())
        for at in range(WINDOWS):
            file.seek((about.st_size - WINDOW) * at // (WINDOWS - 1))
            total.update(file.read(WINDOW))
