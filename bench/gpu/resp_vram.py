#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""resp_vram.py SPILLWAYD: how much GPU memory a daemon uses that serves only sockets.

It reads pressure of the machine's GPU by NVML. Before, during (a client sets and gets 2 GiB) and
after: the card's used memory by the driver, and the processes with a context on it.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time


def driver(what):
    out = subprocess.run(["nvidia-smi", *what, "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True, timeout=60).stdout
    return [line.strip() for line in out.splitlines() if line.strip()]


def used_mib():
    return int(driver(["--query-gpu=memory.used", "-i", "0"])[0])


def contexts():
    return driver(["--query-compute-apps=pid,used_memory"])


def frame(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def main():
    folder = tempfile.mkdtemp(prefix="resp-vram-")
    path, config = os.path.join(folder, "s"), os.path.join(folder, "d.toml")
    with open(config, "w") as file:
        file.write('capacity = "8GiB"\npressure_source = "nvml"\n'
                   '[server]\nport = 0\nhttp_port = 0\n')
    before = used_mib(), contexts()
    process = subprocess.Popen([sys.argv[1], "--config", config, "--socket", path])
    try:
        end = time.monotonic() + 20
        while not os.path.exists(path):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit("the daemon did not start")
            time.sleep(0.02)
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(path)
        answers = client.makefile("rb")
        value = os.urandom(4 << 20)
        most = 0
        for i in range(512):
            client.sendall(frame(b"SET", b"k%d" % (i % 256), value))
            if answers.readline() != b"+OK\r\n":
                raise SystemExit("a set was refused")
            if i % 128 == 0:
                most = max(most, used_mib())
        client.sendall(frame(b"GET", b"k7"))
        if answers.read(int(answers.readline()[1:]) + 2)[:-2] != value:
            raise SystemExit("wrong bytes")
        client.sendall(frame(b"SPILL.MODE"))
        print("SPILL.MODE:", answers.readline(), answers.readline(), answers.readline())
        with open(f"/proc/{process.pid}/maps") as maps:
            libraries = sorted({line.split("/")[-1].strip() for line in maps
                                if "libcuda" in line or "libnvidia" in line})
        ours = [line for line in contexts() if line.split(",")[0] == str(process.pid)]
        print(f"card used before {before[0]} MiB, while serving {most} MiB, "
              f"contexts of the daemon {ours}, NVIDIA libraries it has loaded {libraries}")
    finally:
        process.terminate()
        print("daemon ended with", process.wait(30), "; card used after", used_mib(), "MiB")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
