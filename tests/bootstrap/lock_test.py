#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/bootstrap.sh while another process holds one of apt's locks.

The real apt-get over a root of its own: package lists, archives and locks lie in a temporary
folder, the one package is in a repository beside them, and dpkg is a script that writes down that
it was called. Nothing of the machine is changed, and no root is needed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = "librapidcheck-dev"  # The one that is missing.
WITHIN = 120  # Seconds; only a bug takes them.


class Lock:
    """A lock as apt and dpkg take it, by another process's rights."""

    HOLD = ("import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
            "print('held', flush=True); sys.stdin.read()")

    def __init__(self, path):
        self.holder = subprocess.Popen([sys.executable, "-c", self.HOLD, path], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == "held\n"

    def release(self):
        self.holder.communicate("")


class Bootstrap(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("bin", "repo", "etc/apt.conf.d", "etc/sources.list.d", "etc/preferences.d",
                     "state/lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "status").touch()
        archive = b"what dpkg would unpack"
        (self.folder / "repo/package.deb").write_bytes(archive)
        (self.folder / "repo/Packages").write_text(
            f"Package: {PACKAGE}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\n"
            f"Filename: ./package.deb\nSize: {len(archive)}\n"
            f"SHA256: {hashlib.sha256(archive).hexdigest()}\nDescription: x\n\n")
        (self.folder / "etc/sources.list").write_text(
            f"deb [trusted=yes] file:{self.folder}/repo ./\n")
        (self.folder / "apt.conf").write_text(
            f'Dir::State "{self.folder}/state"; Dir::State::status "{self.folder}/status";\n'
            f'Dir::Cache "{self.folder}/cache"; Dir::Etc "{self.folder}/etc";\n'
            f'Dir::Log "{self.folder}"; Dir::Bin::dpkg "{self.folder}/bin/dpkg";\n'
            'APT::Sandbox::User ""; APT::Architecture "amd64"; APT::Architectures {"amd64";};\n')
        self.script("dpkg", f'echo "$@" >>"{self.folder}/called"')
        # All is installed but the one, which is once dpkg was called.
        self.script("dpkg-query", 'shift 3; for name; do\n'
                    f'  [ "$name" = {PACKAGE} ] && [ ! -e "{self.folder}/called" ] && continue\n'
                    '  echo "installed $name"\ndone')
        self.script("id", "echo 0")
        self.env = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"),
                    "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def script(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def start(self, **env):
        return subprocess.Popen([ROOT / "tools/bootstrap.sh", "coverage"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**self.env, **env})

    def installed(self):
        return (self.folder / "called").exists()

    def test_installs_without_a_word_of_waiting_where_no_lock_is_held(self):
        out, err = self.start().communicate(timeout=WITHIN)
        self.assertIn(f"installing {PACKAGE}", out)
        self.assertEqual(err, "")
        self.assertTrue(self.installed())

    def test_waits_for_each_lock_and_says_so_once(self):
        for name in ("state/lists/lock", "cache/archives/lock", "lock-frontend", "lock"):
            with self.subTest(name):
                (self.folder / "called").unlink(missing_ok=True)
                for lists in (self.folder / "state/lists").glob("*Packages*"):
                    lists.unlink()
                lock = Lock(self.folder / name)
                process = self.start()
                said = process.stderr.readline()  # It waits until this was read, at least.
                self.assertIn(f"process {lock.holder.pid} ", said)
                self.assertIn(f"holds {self.folder / name}", said)
                self.assertIn("waits up to 600 s", said)
                self.assertFalse(self.installed())
                lock.release()
                _, err = process.communicate(timeout=WITHIN)
                self.assertEqual((process.returncode, err), (0, ""))
                self.assertTrue(self.installed())

    def test_gives_up_after_its_bound_and_names_the_holder(self):
        lock = Lock(self.folder / "lock-frontend")
        self.addCleanup(lock.release)
        process = self.start(SPILLWAY_APT_WAIT="2")
        _, err = process.communicate(timeout=WITHIN)
        self.assertEqual(process.returncode, 1)
        self.assertIn("gives up after 2 s", err)
        self.assertIn(f"process {lock.holder.pid} ", err.splitlines()[-1])
        self.assertFalse(self.installed())

    def test_an_error_that_is_no_lock_is_not_waited_for(self):
        self.script("dpkg", "exit 1")
        process = self.start()
        _, err = process.communicate(timeout=WITHIN)
        self.assertEqual(process.returncode, 1)
        self.assertNotIn("waits", err)
        self.assertIn(f"could not install {PACKAGE}", err)

    def test_a_bound_that_is_no_number_is_refused(self):
        process = self.start(SPILLWAY_APT_WAIT="soon")
        _, err = process.communicate(timeout=WITHIN)
        self.assertEqual(process.returncode, 2)
        self.assertIn("SPILLWAY_APT_WAIT is 'soon'", err)


if __name__ == "__main__":
    if shutil.which("apt-get") is None:
        print("skipped: no apt-get")
        sys.exit(77)
    unittest.main()
