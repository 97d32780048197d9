# SPDX-License-Identifier: Apache-2.0
"""The memory the demo uses: a virtual card of its own, or a small part of a GPU."""

import json
import os
import subprocess
import time

from processes import DemoError, Process
from screen import size

MIB, GIB = 1 << 20, 1 << 30
# The default idle limits, dwell and ttl suit days of use; a demo has seconds.
HASTE = {"idle_normal": "4s", "idle_critical": "1s", "dwell": "500ms", "ttl": "20s",
         "emergency_time": "5s", "prefetch_steps": 3}
# A process's own memory on a GPU appears when it begins to use it: memory it takes this much later
# is sensed separately.
GPU_LEAD_S = 1.5
GPU_SOURCES = {"cuda": ("cuda", "nvml"), "hip": ("amd-smi", "rocm-smi", "amd-sysfs")}


class Stage:
    def __init__(self, device, asked, spillway, folder):
        """`asked`: bytes of the card or of the part; None: the usual size."""
        self.spillway, self._folder, self._keeper = spillway, folder, None
        self.per_process = self.lead_s = 0
        self.env = {**os.environ, "SPILLWAY_RUN_DIR": str(folder.path)}
        if device == "cpu":  # No GPU is used.
            self.env |= {"SPILLWAY_CUDA_LIBRARY": "", "SPILLWAY_HIP_LIBRARY": ""}
        sources = self._probe()
        self._ram = next(row["free"] for row in sources if row["kind"] == "host")
        self._gpu = self._find_gpu(sources, device)
        why, part = self._gpu_part(asked) if self._gpu else ("", 0)
        if not self._gpu and device not in ("auto", "cpu"):
            why = f"{device}: `spillway probe` finds no such GPU; without one, --device cpu is right"
        if why and device != "auto":
            raise DemoError(why, 2 if self._gpu else 1)
        self.on_gpu = bool(part and not why)
        if self.on_gpu:
            self._open_gpu(part)
        else:
            usual = min(512 * MIB, self._ram // 8, folder.free // 8) // MIB * MIB
            self._open_card(asked or usual)
            self.note += f"; {why}" if why else ""

    def _probe(self):
        """What `spillway probe` finds: GPUs, and the machine's memory."""
        done = subprocess.run([self.spillway, "probe", "--json"], env=self.env, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return json.loads(done.stdout)["sources"]

    @staticmethod
    def _find_gpu(sources, device):
        """The GPU of that name; for auto, the first."""
        for vendor, kinds in GPU_SOURCES.items():
            rows = next((rows for kind in kinds if (rows := [
                row for row in sources if row["kind"] == kind and "free" in row])), [])
            for i, row in enumerate(rows):
                names = [f"{vendor}:{name}" for name in (i, row.get("device"), row.get("uuid"))]
                if device in names or not i and device in ("auto", vendor):
                    name = names[0] if device in ("auto", vendor) else device
                    return {**row, "device": name, "name": f"{name} ({row.get('label', vendor)})"}
        return None

    def _gpu_part(self, asked):
        """Why no part of it is used, and how large the part would be."""
        free, name = self._gpu["free"], self._gpu["name"]
        usual = min(4 * GIB, free // 8, self._ram // 2, self._folder.free // 8) // MIB * MIB
        if asked and asked > free // 8:
            return f"{size(asked)} of {name} are more than an eighth of the {size(free)} free", asked
        if not asked and usual < 512 * MIB:
            return f"{name}: {size(usual)} could be used, less than 512 MiB (see --card-size)", usual
        return "", asked or usual

    def _open_card(self, total):
        self._check(f"a card of {size(total)} with the tiers below it", total, total * 5 // 4)
        self.size, self.name = total, f"a virtual card of {size(total)}"
        self.where, self.note = ["--card", "demo"], "RAM of this machine: no GPU is touched"
        self.settings = {"card": "demo", "capacity": "none"}
        # It takes nothing; the card keeps its size while the daemon is down.
        self._keeper = Process([self.spillway, "squeeze", "4KiB", *self.where, "--total",
                                str(total), "--after", "48h"], self.env)
        while not self._keeper.lines and self._keeper.ended() is None:
            time.sleep(0.01)

    def _open_gpu(self, part):
        gpu = self._gpu
        self._check(f"{size(part)} of a GPU", part, part // 4)
        self.size, self.lead_s = part, GPU_LEAD_S
        self.name, self.where = f"{size(part)} of {gpu['name']}", ["--device", gpu["device"]]
        self.note = f"of {size(gpu['free'])} free there; with neighbours at most a quarter of them"
        self.settings = {"device": gpu["device"], "capacity": part, "reserve": 0,
                         "pressure_source": f"part:{part}", "reserve_bytes_min": part // 10}

    def _check(self, what, card, ram):
        """Little RAM below the card, so that the disk matters; room for all contexts on disk."""
        self._below = {"host_capacity": card // 4, "disk_capacity": 3 * card}
        for need, free, where in ((ram, self._ram, "memory"),
                                  (3 * card, self._folder.free, "disk")):
            if need > free // 2:
                raise DemoError(f"{what} takes {size(need)} of {where}: more than half of the "
                                f"{size(free)} that are free here", 2)

    def daemon_settings(self):
        return {**self.settings, **self._below, "disk_dir": str(self._folder.path / "disk"),
                **HASTE}

    def look_at_daemon(self):
        """On a GPU: how much its driver takes for each process, measured when one started."""
        now = self._find_gpu(self._probe(), self._gpu["device"]) if self.on_gpu else None
        if now:
            self.per_process = max(0, self._gpu["free"] - now["free"])

    def part(self, share):
        """That share for a neighbour, minus what a driver takes for it."""
        whole = int(share * self.size)
        return max(whole - self.per_process, whole // 8) // 4096 * 4096

    def close(self):
        if self._keeper:
            self._keeper.kill()
