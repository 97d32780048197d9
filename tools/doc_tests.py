#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/doc_tests.py [--short] [--list] [PAGE...]: runs the commands of the documentation.

Every ```sh block of README.md, CONTRIBUTING.md and docs/ is run, page by page, in a folder and a
network of its own, with the programs of build/release first in PATH. A daemon that a page starts in
the background is waited for. What cannot run here says why in a comment before the block:

  <!-- not run: it needs a GPU -->     <!-- slow: it builds a test -->

`slow` blocks run without --short only, at the root of the tree, which they build in. Commands elsewhere (fences without a language, `inline`
ones) are not run, but every option they name is one of the program's. Python blocks of
docs/start.md run, too. Prints how many commands ran, and how many could not and why.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
BLOCK = re.compile(r"(?:^<!-- (not run|slow): (.*?) -->\n)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS = ("spillway", "spillwayd", "make", "pip", "apt", "docker", "systemctl", "tools/", "python3",
            "build/", "lmcache", "promtool")
SECONDS_MAX = 120
RECORDS = ("docs/gpu-results.md",)  # Of runs of earlier versions, with the options those had.
PYTHON_PAGES = ("docs/start.md",)
tally = Tally()
WAIT = """
for _ in $(seq 200); do
  spillway stats >/dev/null 2>&1 && break
  sleep 0.1
done
"""


def pages():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "README.md",
                             "CONTRIBUTING.md", "docs/*.md"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.split("\n") if line and (ROOT / line).exists()]


def commands_of(text):
    """The commands of a block: lines, with those that go on joined; no comments."""
    joined = re.sub(r"\\\n", " ", text)
    return [line for line in joined.split("\n") if line.strip() and not line.strip().startswith("#")]


def fail(what, why):
    tally.failed += 1
    print(f"FAILED: {what}\n{why}")


def options_of(program, cache={}):
    """All options of one help page."""
    if program not in cache:
        words = program.split()
        done = subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True, text=True)
        cache[program] = set(re.findall(r"(?<![\w-])--?[\w-]+", done.stdout)) | {"--help", "--version"}
        if done.returncode:
            cache[program] = None
    return cache[program]


def check_options(page, text):
    """Every option that a page writes after `spillway COMMAND` or `spillwayd` exists."""
    found = 0
    for name, command, rest in re.findall(r"(?:^|`|\$ )(spillwayd?)((?: [a-z]+)?)\b([^`\n|]*)", text,
                                          re.MULTILINE):
        if "/" in rest.split(" -- ")[0] and name == "spillway" and not command:
            continue
        program = name if name == "spillwayd" else f"{name}{command}".strip()
        if program == "spillway" or program == "spillway help":
            continue
        known = options_of(program)
        if known is None:
            continue  # Prose, as in `spillway for`.
        own = re.split(r" -- |#", rest)[0]
        for option in re.findall(r"(?<=[\s\[])--[a-z][\w-]*", own):
            found += 1
            if option not in known:
                fail(f"{page}: {program} {option}", "the program has no such option")
    return found


def script_of(blocks):
    lines = ["set -euo pipefail"]
    for block in blocks:
        for line in block.split("\n"):
            lines.append(line)
            if re.match(r"spillwayd .*&\s*$", line):
                lines.append(WAIT)
    return "\n".join(lines)


def can_isolate():
    done = subprocess.run(["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                           "true"], capture_output=True)
    return done.returncode == 0


def run_page(page, blocks, python, in_tree):
    """Runs all blocks of a page as one script. True: all succeeded."""
    with tempfile.TemporaryDirectory(prefix="spillway-docs-") as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("SPILLWAY")}
        env |= {"PATH": f"{BIN}:{env['PATH']}", "SPILLWAY_RUN_DIR": f"{folder}/run",
                "SPILLWAY_SOURCE": str(ROOT), "PYTHONPATH": str(ROOT / "python"),
                "SPILLWAY_LIBRARY": str(ROOT / "build/release/python/spillway/_lib/libspillway.so.0"),
                "COLUMNS": "80"}
        work = Path(folder) / "work"
        work.mkdir()
        Path(folder, "run").mkdir(mode=0o700)
        for name in ("build", "docs", "tools", "examples", "tests"):  # Paths in pages are the tree's.
            (work / name).symlink_to(ROOT / name)
        script = "ip link set lo up\n" + script_of(blocks)
        if in_tree:
            script = f"cd {ROOT}\n{script}"
        for number, code in enumerate(python):
            (work / f"block-{number}.py").write_text(code)
            script += f"\npython3 block-{number}.py\n"
        command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "bash", "-c", script]
        try:
            done = subprocess.run(command, cwd=work, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX * 5)
        except subprocess.TimeoutExpired as late:
            return False, str(late)
        return done.returncode == 0, done.stdout[-3000:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("pages", nargs="*")
    arguments = parser.parse_args()
    isolated = shutil.which("unshare") and shutil.which("ip") and can_isolate()
    ran = options = 0
    left = {}
    for page in arguments.pages or pages():
        text = (ROOT / page).read_text()
        options += 0 if page in RECORDS else check_options(page, text)
        blocks, python, in_tree = [], [], False
        for kind, why, language, body in BLOCK.findall(text):
            if language == "python" and page in PYTHON_PAGES:
                python.append(body)
            if language == "" and kind == "":
                first = body.split("\n")[0]
                if first.split(" ")[0].startswith(PROGRAMS) and not re.search(r"[\[.]{1}[-.]| {3}", first):
                    fail(f"{page}: {first}", "a block of commands begins with ```sh")
            if language != "sh":
                continue
            count = len(commands_of(body))
            if kind == "not run" or kind == "slow" and arguments.short:
                left[f"{kind}: {why}"] = left.get(f"{kind}: {why}", 0) + count
            else:
                blocks.append(body)
                in_tree |= kind == "slow"
        count = sum(len(commands_of(block)) for block in blocks) + len(python)
        if arguments.list:
            for block in blocks:
                print("\n".join(f"{page}: {line}" for line in commands_of(block)))
        elif count and not isolated:
            left["no network of its own could be made (unshare)"] = count
        elif count:
            good, said = run_page(page, blocks, python, in_tree)
            ran += count
            if good:
                tally.passed += count
            else:
                fail(page, said)
    print(f"{ran} commands of the documentation ran; {options} options that it names exist")
    for why, count in sorted(left.items()):
        print(f"  {count} did not run; {why}")
    tally.passed += 1
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
