#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/packages.py [deb|wheel ...]: builds the packages under build/packages.

  spillway_VERSION-1_ARCH.deb   programs, library, headers, systemd unit, sample configuration,
                                man pages, completions, documentation
  spillway-VERSION-*.whl        the Python package with the programs; needs glibc and libstdc++

The .deb is what `cmake --install` would install, and uses Debian's libraries. The unit is shipped
neither enabled nor started. Needs dpkg-dev, and for the wheel pip and scikit-build-core in
build/python-venv (as `make test` has it) or in the Python that runs this.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import manual

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build/packages"
BUILD = ROOT / "build/release"
MAINTAINER = "The Spillway authors <spillway@packages.invalid>"
SUMMARY = "page cache for GPU memory, for the contexts of LLM agents"
ABOUT = """\
 Spillway fills idle GPU memory with LLM contexts (KV tensors), copies them to
 host memory and disk in the background, and gives the memory back within
 milliseconds when another process needs it.
 .
 This package has the daemon spillwayd (Redis protocol, HTTP, dashboard), the
 command line spillway, and the library for C and C++.
"""
UNIT = "spillwayd.service"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def said(*command, **options):
    return run(*command, capture_output=True, text=True, **options).stdout.strip()


def version():
    found = re.search(r"project\(spillway VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    return found[1]


def compressed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(gzip.compress(text if isinstance(text, bytes) else text.encode(), 9, mtime=0))


# --- the .deb ---

# An upgrade leaves a running daemon alone until it is restarted: systemd's own at once, which first
# writes what only memory has to disk; one that was started by hand is named.
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
  if [ -n "$2" ]; then
    deb-systemd-invoke try-restart spillwayd.service >/dev/null || true
  fi
fi
if [ "$1" = configure ] && [ -n "$2" ]; then
  for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe" 2>/dev/null || true) in
      "/usr/bin/spillwayd (deleted)")
        pid=${exe#/proc/}
        echo "spillwayd, pid ${pid%/exe}, still runs the old version: restart it" ;;
    esac
  done
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop spillwayd.service >/dev/null || true
fi
"""
POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
  for dir in /var/lib/spillway /var/lib/private/spillway; do
    if [ -d "$dir" ]; then
      echo "spillway: the contexts in $dir are left; remove the folder if they are not needed"
    fi
  done
fi
"""


def unit_text():
    text = (ROOT / "tools" / UNIT).read_text()
    body = text[text.index("[Unit]"):]  # The lines above say where to copy it.
    return body.replace("/usr/local/bin/", "/usr/bin/")


def copyright_text():
    notice = "\n".join(f" {line}".rstrip() or " ." for line in
                       "On Debian systems the license is in /usr/share/common-licenses/Apache-2.0."
                       .split("\n"))
    return ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
            "Upstream-Name: spillway\n\nFiles: *\nCopyright: 2026 the Spillway authors\n"
            f"License: Apache-2.0\n{notice}\n")


def stage(tree):
    """Puts everything in place below `tree`."""
    run("cmake", "--install", BUILD, "--prefix", "/usr", env=dict(os.environ, DESTDIR=str(tree)),
        stdout=subprocess.DEVNULL)
    usr, share = tree / "usr", tree / "usr/share"
    shutil.rmtree(share / "spillway")  # The unit, for those who install from source.
    units = tree / "lib/systemd/system"
    units.mkdir(parents=True)
    (units / UNIT).write_text(unit_text())
    config = tree / "etc/spillway/spillwayd.toml"
    config.parent.mkdir(parents=True)
    config.write_text(said(BUILD / "bin/spillwayd", "--sample-config") + "\n")

    made = OUT / "work/manual"
    for path in manual.write(made, BUILD / "bin"):
        kind, *rest = path.relative_to(made).parts
        if kind == "man":
            compressed(share / "man" / rest[0] / f"{rest[1]}.gz", path.read_bytes())
            continue
        folder = {"bash": "bash-completion/completions", "zsh": "zsh/vendor-completions",
                  "fish": "fish/vendor_completions.d"}[rest[0]]
        (share / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, share / folder / rest[1])

    for path in [usr / "bin/spillway", usr / "bin/spillwayd", *usr.glob("lib/*.so.*.*"),
                 usr / "lib/spillway/libspillway_ask.so"]:
        run("strip", "--remove-section=.comment", "--remove-section=.note", path)
    for path in usr.glob("lib/*.a"):
        run("strip", "--strip-debug", "--enable-deterministic-archives", path)

    doc = share / "doc/spillway"
    doc.mkdir(parents=True, exist_ok=True)
    (doc / "LICENSE").unlink(missing_ok=True)  # /usr/share/common-licenses has it.
    (doc / "copyright").write_text(copyright_text())
    # The change log's own date: the same tree gives the same package, with or without git.
    date = said("date", "-R", "-r", ROOT / "CHANGELOG.md")
    compressed(doc / "changelog.Debian.gz",
               f"spillway ({version()}-1) unstable; urgency=medium\n\n"
               f"  * See changelog.gz.\n\n -- {MAINTAINER}  {date}\n")
    compressed(doc / "changelog.gz", (ROOT / "CHANGELOG.md").read_text())
    pages = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
    for page in [Path("README.md"), *pages]:
        to = doc / page
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, to)
    if (ROOT / "deploy").is_dir():
        shutil.copytree(ROOT / "deploy", doc / "deploy")


def depends(tree):
    """The libraries of Debian that the programs use, by dpkg-shlibdeps."""
    (OUT / "work/debian").mkdir(parents=True, exist_ok=True)
    (OUT / "work/debian/control").write_text("Source: spillway\n\nPackage: spillway\nArchitecture: any\n")
    files = [*(tree / "usr/bin").iterdir(), *(tree / "usr/lib").glob("*.so.*.*")]
    line = said("dpkg-shlibdeps", "-O", "--ignore-missing-info", *files, cwd=OUT / "work")
    return line.partition("=")[2].strip()


def build_deb():
    run(ROOT / "tools/build.sh", "release", "all")
    tree = OUT / "work/deb"
    shutil.rmtree(OUT / "work", ignore_errors=True)
    tree.mkdir(parents=True)
    os.umask(0o022)
    stage(tree)
    control = tree / "DEBIAN"
    control.mkdir()
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    arch = said("dpkg", "--print-architecture")
    (control / "control").write_text(
        f"Package: spillway\nVersion: {version()}-1\nArchitecture: {arch}\n"
        f"Maintainer: {MAINTAINER}\nInstalled-Size: {size}\nDepends: {depends(tree)}\n"
        "Suggests: prometheus\nSection: utils\nPriority: optional\n"
        f"Description: {SUMMARY}\n{ABOUT}")
    (control / "conffiles").write_text("/etc/spillway/spillwayd.toml\n")
    (control / "triggers").write_text("activate-noawait ldconfig\n")
    (control / "shlibs").write_text(f"libspillway {version().split('.')[0]} spillway (>= {version()})\n")
    for name, text in (("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)):
        (control / name).write_text(text)
        (control / name).chmod(0o755)
    sums = []
    for path in sorted(tree.rglob("*")):
        own = path.relative_to(tree)
        if path.is_symlink():
            continue
        if path.is_dir():
            path.chmod(0o755)
        elif own.parts[0] != "DEBIAN":
            path.chmod(0o755 if own.parent == Path("usr/bin") else 0o644)
            if own.parts[0] != "etc":
                sums.append(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {own}\n")
    (control / "md5sums").write_text("".join(sums))
    made = OUT / f"spillway_{version()}-1_{arch}.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, made, stdout=subprocess.DEVNULL)
    return made


# --- the wheel ---


def build_wheel():
    own = ROOT / "build/python-venv/bin/python"
    python = next((path for path in (own, Path(sys.executable)) if path.exists()
                   and subprocess.run([path, "-c", "import scikit_build_core"],
                                      capture_output=True).returncode == 0), None)
    isolated = python is None
    command = [python or sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check",
               "--no-deps", "-C", "cmake.define.SPILLWAY_WERROR=ON", "-w", OUT, ROOT]
    if not isolated:
        command += ["--no-build-isolation"]
    for old in OUT.glob("spillway-*.whl"):
        old.unlink()
    run(*command, env=dict(os.environ, CCACHE_BASEDIR=str(ROOT), CCACHE_NOHASHDIR="1"))
    return next(OUT.glob("spillway-*.whl"))


def main():
    kinds = sys.argv[1:] or ["deb", "wheel"]
    OUT.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        path = {"deb": build_deb, "wheel": build_wheel}[kind]()
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
