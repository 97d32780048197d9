#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Debian's Chromium, with a real daemon: tests/web, by Playwright.

  tools/web_tests.py [--only PART] [--slow TIMES] [--pictures FOLDER] [--bench]

playwright-core and axe-core come from npm into build/web-tests, in the versions of its lock file.
If something is missing (Node, npm's registry, Chromium, or a daemon with the dashboard), it is
named, and the tests are skipped.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests/web"
FOLDER = ROOT / "build/web-tests"
DAEMON = ROOT / "build/release/bin/spillwayd"
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser")
SECONDS_MAX = 1200
INSTALL_SECONDS_MAX = 600


def skip(why):
    print(f"skipped: the dashboard's tests: {why}")
    Tally(skipped=1).finish()


def install():
    """Installs the packages and puts the tests beside them. False: they are not available."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in [*SOURCES.glob("*.mjs"), *(ROOT / "bench/web").glob("*.mjs")]:
        shutil.copy(path, FOLDER)
    lock = (SOURCES / "package-lock.json").read_bytes()
    wanted = hashlib.sha256(lock).hexdigest()
    stamp = FOLDER / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(SOURCES / name, FOLDER)
    try:
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit",
                               "--no-fund", "--fetch-retries=1"], cwd=FOLDER,
                              timeout=INSTALL_SECONDS_MAX, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except subprocess.TimeoutExpired:
        # A registry that does not respond counts as missing.
        print(f"npm ci did not end within {INSTALL_SECONDS_MAX} s")
        return False
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-5:]))
        return False
    stamp.write_text(wanted)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--pictures", default="")
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--slow", type=float, default=1, help="a browser so many times slower")
    args = parser.parse_args()
    if not shutil.which("node") or not shutil.which("npm"):
        skip("Node and npm are not installed")
    if not any(Path(path).exists() for path in BROWSERS):
        skip("Chromium is not installed")
    if not (ROOT / "build/web/built").exists():
        skip("the daemon was built without the dashboard")
    if not install():
        skip("playwright-core can't be installed (no registry?)")
    command = ["node", "run.mjs", DAEMON, *([args.only] if args.only else [])]
    if args.pictures:
        command = ["node", "pictures.mjs", DAEMON, Path(args.pictures).resolve()]
    if args.bench:
        command = ["node", "contexts_100k.mjs", DAEMON]
    limit = None if args.bench else SECONDS_MAX
    try:
        return subprocess.run(command, cwd=FOLDER, timeout=limit, check=False,
                              env={**os.environ, "SLOW": str(args.slow)}).returncode
    except subprocess.TimeoutExpired:
        print(f"FAILED: the tests did not end within {SECONDS_MAX} s")
        Tally(failed=1).finish()


if __name__ == "__main__":
    sys.exit(main())
