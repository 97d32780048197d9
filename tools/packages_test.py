#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/packages_test.py [--only PART,...]: what tools/packages.py built, as a user meets it.

  files    lintian finds no error; man pages and completions are well formed and whole
  deb      in a fresh Debian 12 (debootstrap, in a chroot): install, start by the unit's own command
           line, use, upgrade to a next version over the running daemon, stop, purge: only data left
  wheel    in a fresh venv in another Debian 12 without build packages: pip install, then
           `spillway --version`, and spillwayd answers PING and serves its dashboard within 60 s
  image    where docker has a builder: the image is built, and its health check turns healthy

The chroots need root and Debian's archive; what is missing is named, and its part skipped.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "build/packages"
BASE = ROOT / "build/chroots/bookworm"
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
WHEEL_SECONDS_MAX = 60
tally = Tally()


def check(what, good, why=""):
    if good:
        tally.passed += 1
        print(f"  ok: {what}", flush=True)
    else:
        tally.failed += 1
        print(f"FAILED: {what}\n{why}", flush=True)
    return bool(good)


def skip(what, why):
    tally.skipped += 1
    print(f"skipped: {what}: {why}")


def run(*command, timeout=900, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, **options)
    return done.returncode, done.stdout


def package(pattern):
    found = sorted(PACKAGES.glob(pattern))
    return found[-1] if found else None


# --- files ---


def options_of(text):
    return set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE))


def test_files(deb):
    if shutil.which("lintian"):
        _, said = run("lintian", "--fail-on", "error", deb)
        errors = [line for line in said.split("\n") if line.startswith("E:")]
        check("lintian finds no error", not errors, "\n".join(errors))
    else:
        skip("lintian", "it is not installed")
    tree = PACKAGES / "work/look"
    shutil.rmtree(tree, ignore_errors=True)
    run("dpkg-deb", "-x", deb, tree)
    bin_dir = ROOT / "build/release/bin"
    pages = list((tree / "usr/share/man").rglob("*.gz"))
    _, listed = run(bin_dir / "spillway", "--help")
    names = [name for name in re.findall(r"^  ([a-z][a-z-]*) ", listed, re.MULTILINE)
             if name not in ("demo", "llama-slots")]
    for name in names:
        _, text = run("sh", "-c", f"zcat {tree}/usr/share/man/man1/spillway-{name}.1.gz")
        own = options_of(run(bin_dir / "spillway", name, "--help")[1])
        lacking = [option for option in own if option.replace("-", "\\-") not in text]
        check(f"spillway-{name}.1 has all {len(own)} options", own and not lacking, lacking)
    for shell, path in {"bash": "bash-completion/completions/spillway",
                        "zsh": "zsh/vendor-completions/_spillway",
                        "fish": "fish/vendor_completions.d/spillway.fish"}.items():
        text = (tree / "usr/share" / path).read_text()
        lacking = [name for name in names if not re.search(rf"\b{name}\b", text)]
        check(f"the completion for {shell} has all {len(names)} commands", not lacking, lacking)
        if shutil.which(shell):
            code, said = run(shell, "-n", tree / "usr/share" / path)
            check(f"{shell} can read its completion", code == 0, said)
        else:
            skip(f"{shell} reads its completion", "it is not installed")
    if shutil.which("mandoc"):
        for page in pages:
            _, said = run("mandoc", "-T", "lint", "-W", "error", page)
            check(f"{page.name} is well formed", not said.strip(), said)
    unit = (tree / "lib/systemd/system/spillwayd.service").read_text()
    sample = (tree / "etc/spillway/spillwayd.toml").read_text()
    stop = int(re.search(r"TimeoutStopSec=(\d+)", unit)[1])
    flush = int(re.search(r"# stop_flush = (\d+)", sample)[1])
    check(f"TimeoutStopSec ({stop} s) is above stop_flush ({flush} s)", stop > flush)


    if shutil.which("systemd-analyze"):
        test_unit(unit)
    else:
        skip("systemd-analyze verify", "it is not installed")


def test_unit(text):
    """systemd finds nothing in the unit; the program it names is the one that was built."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spillwayd.service")
        path.write_text(text.replace("/usr/bin/spillwayd", str(ROOT / "build/release/bin/spillwayd")))
        code, said = run("systemd-analyze", "verify", "--man=no", path)
        check("systemd-analyze verify finds nothing in the unit", code == 0 and not said.strip(), said)


SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1"}


def test_linked_in(wheel):
    """What is neither glibc nor libstdc++ is linked in."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as files:
            files.extractall(folder)
        found = 0
        for path in Path(folder).rglob("*"):
            if not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                continue
            _, said = run("readelf", "-d", path)
            needs = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))
            found += 1
            check(f"{path.name} needs glibc and libstdc++ alone", needs and needs <= SYSTEM, needs - SYSTEM)
        check(f"the wheel has {found} programs and libraries", found >= 3)


def next_version(deb, folder):
    """The same package as a later version."""
    tree = folder / "next"
    run("dpkg-deb", "-R", deb, tree)
    control = tree / "DEBIAN/control"
    text, count = re.subn(r"^Version: (.*)$", r"Version: \1+next", control.read_text(), flags=re.MULTILINE)
    control.write_text(text)
    path = folder / "next.deb"
    code, said = run("dpkg-deb", "--root-owner-group", "--build", tree, path)
    shutil.rmtree(tree)
    check("a later version of the package", count == 1 and code == 0, said)
    return path


# --- chroots ---


class Chroot:
    """A copy of a fresh Debian 12, removed at the end."""

    def __init__(self, name, packages=()):
        self.path = BASE.parent / name
        self.close()
        run("cp", "-a", "--reflink=auto", BASE, self.path)
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")
        # No daemon is started by a package: there is no init.
        (self.path / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (self.path / "usr/sbin/policy-rc.d").chmod(0o755)
        for what in ("proc", "dev"):
            run("mount", "--bind", f"/{what}", self.path / what)
        if packages:
            code, said = self.run("apt-get", "update", "-qq")
            code, said = self.run("apt-get", "install", "-y", "-qq", "--no-install-recommends",
                                  *packages)
            if code:
                raise RuntimeError(f"apt-get install {packages}: {said[-500:]}")

    def run(self, *command, **options):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
               "LC_ALL": "C.UTF-8", "HOME": "/tmp", **options.pop("env", {})}
        return run("chroot", self.path, *command, env=env, **options)

    def start(self, *command, env=None):
        own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp"}
        return subprocess.Popen(["chroot", str(self.path), *command], env={**own, **(env or {})},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def files(self):
        """Every path, but for what apt, dpkg and the kernel keep."""
        kept = ("proc", "dev", "sys", "tmp", "var/cache", "var/lib/apt", "var/lib/dpkg", "var/log",
                "run", "etc/ld.so.cache", "var/lib/systemd", "var/lib/private")
        found = set()
        for folder, names, files in os.walk(self.path):
            own = os.path.relpath(folder, self.path)
            names[:] = [name for name in names
                        if os.path.normpath(os.path.join(own, name)) not in kept]
            found |= {os.path.normpath(os.path.join(own, name)) for name in [*names, *files]}
        return {path for path in found if path not in kept}

    def close(self):
        for what in ("dev", "proc"):
            if os.path.ismount(self.path / what):
                run("umount", "-l", self.path / what)
        if self.path.exists():
            if any(os.path.ismount(self.path / what) for what in ("dev", "proc")):
                raise RuntimeError(f"{self.path} is still mounted")
            shutil.rmtree(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def make_base():
    """Debian 12 by debootstrap, kept for the next time. False: it can't be had here."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        skip("the chroots", "they need root and debootstrap")
        return False
    if (BASE / "etc/debian_version").exists():
        return True
    part = BASE.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    code, said = run("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, part, MIRROR)
    if code:
        skip("the chroots", f"debootstrap failed: {said.strip().splitlines()[-1]}")
        return False
    part.rename(BASE)
    return True


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def resp(port, *words):
    """One command to the daemon; its reply's first line, and the value of a bulk."""
    text = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(text.encode())
        reply = link.recv(65536).decode()
    first, _, rest = reply.partition("\r\n")
    return rest.removesuffix("\r\n") if first.startswith("$") and rest else first


def http(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def wait_for(what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


def unit_command(chroot):
    """ExecStart of the installed unit, its environment and the user's folders it names."""
    text = (chroot.path / "lib/systemd/system/spillwayd.service").read_text()
    command = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])
    env = dict(pair.split("=", 1) for pair in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    for line, root in (("StateDirectory", "var/lib"), ("RuntimeDirectory", "run")):
        name = re.search(rf"^{line}=(.*)$", text, re.MULTILINE)[1]
        (chroot.path / root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return command, env


def stop(daemon, seconds=30):
    daemon.send_signal(signal.SIGTERM)
    try:
        return daemon.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        daemon.kill()
        return daemon.communicate()[0]


def test_deb(deb):
    with Chroot("deb") as chroot:
        code, said = chroot.run("apt-get", "update", "-qq")
        shutil.copy(deb, chroot.path / "tmp/spillway.deb")
        # What Debian's libraries bring is theirs: they are there before the package is.
        needs = run("dpkg-deb", "-f", deb, "Depends")[1]
        libraries = [re.split(r"[ (|]", one.strip())[0] for one in needs.split(",")]
        code, said = chroot.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *libraries)
        if not check("the libraries it depends on are Debian 12's", code == 0, said[-2000:]):
            return
        before = chroot.files()
        code, said = chroot.run("dpkg", "-i", "/tmp/spillway.deb")
        if not check("dpkg -i installs it", code == 0, said):
            return
        check("spillway says its version", chroot.run("spillway", "--version")[1].startswith("spillway 0."))
        code, said = chroot.run("spillwayd", "--check-config", "--config", "/etc/spillway/spillwayd.toml")
        check("the sample configuration is right", code == 0, said)

        port, web = free_port(), free_port()
        config = chroot.path / "etc/spillway/spillwayd.toml"
        text = config.read_text()
        for name, value in {"disk_dir": '"/var/lib/spillway"', "capacity": '"64MiB"',
                            "disk_capacity": '"256MiB"', "port": port, "http_port": web}.items():
            text, count = re.subn(rf"^# {name} = .*$", f"{name} = {value}", text, count=1, flags=re.MULTILINE)
            check(f"the sample has {name}", count == 1)
        config.write_text(text)
        command, env = unit_command(chroot)
        daemon = chroot.start(*command, env=env)
        up = wait_for(lambda: resp(port, "PING") == "+PONG", 20)
        if not check(f"the unit's own command line serves: {' '.join(command)}", up, ""):
            print(stop(daemon))
            return
        check("SET and GET", resp(port, "SET", "k", "kept") == "+OK" and resp(port, "GET", "k") == "kept")
        check("the dashboard", "<title>Spillway</title>" in http(web, "/"))
        check("spillway stats asks it",
              chroot.run("spillway", "stats", "--url", f"redis://127.0.0.1:{port}")[0] == 0)

        # A conffile that was changed is kept, and the running daemon is left alone and named.
        next_version(deb, chroot.path / "tmp")
        code, said = chroot.run("dpkg", "-i", "/tmp/next.deb")
        check("an upgrade over the running daemon succeeds", code == 0, said)
        _, said_version = chroot.run("dpkg-query", "-W", "-f", "${Version}", "spillway")
        check("it is the later version", said_version.endswith("+next"), said_version)
        check("the upgrade names the daemon that runs the old version",
              "still runs the old version: restart it" in said, said)
        check("the upgrade keeps the changed configuration", config.read_text() == text)
        check("the running daemon has lost nothing", resp(port, "GET", "k") == "kept")
        said = stop(daemon)
        check("it stops within TimeoutStopSec and flushes", "spillwayd: closed" in said, said)
        daemon = chroot.start(*command, env=env)
        up = wait_for(lambda: resp(port, "GET", "k") == "kept", 20)
        check("the new version has the contexts of the old", up, "")
        stop(daemon)

        code, said = chroot.run("dpkg", "--purge", "spillway")
        check("dpkg --purge removes it", code == 0, said)
        check("purge names the data it leaves", "the contexts in /var/lib/spillway are left" in said, said)
        left = {path for path in chroot.files() - before if not path.startswith("var/lib/spillway")}
        check("nothing is left but data", not left, "\n".join(sorted(left)))


def test_wheel(wheel):
    with Chroot("wheel", ["python3-venv"]) as chroot:
        absent = chroot.run("sh", "-c", "command -v g++ cmake npm || true")[1].strip()
        check("no build packages are there", not absent, absent)
        shutil.copy(wheel, chroot.path / "tmp")
        began = time.monotonic()
        code, said = chroot.run("python3", "-m", "venv", "/opt/venv")
        check("a venv", code == 0, said)
        made = time.monotonic()
        code, said = chroot.run("/opt/venv/bin/pip", "install", "-q", "--no-index", f"/tmp/{wheel.name}")
        if not check("pip installs the wheel", code == 0, said):
            return
        code, said = chroot.run("/opt/venv/bin/spillway", "--version")
        check("spillway --version", code == 0 and said.startswith("spillway 0."), said)
        port, web = free_port(), free_port()
        daemon = chroot.start("/opt/venv/bin/spillwayd", "--port", str(port), "--http-port", str(web))
        up = wait_for(lambda: resp(port, "PING") == "+PONG", 30)
        page = up and http(web, "/")
        took = time.monotonic() - made
        check("spillwayd answers PING", up, "")
        check("spillwayd serves its dashboard", page and "<title>Spillway</title>" in page, page)
        check(f"{took:.1f} s after pip install began ({made - began:.1f} s for the venv)",
              took < WHEEL_SECONDS_MAX)
        code, said = chroot.run("/opt/venv/bin/python", "-c",
                                "import spillway; c = spillway.Cache(capacity='64MiB'); "
                                "c['k'] = b'v'; print(bytes(c['k']))")
        check("import spillway restores a context", code == 0 and "b'v'" in said, said)
        stop(daemon)


def test_image():
    if not shutil.which("docker") or run("docker", "info")[0] != 0:
        skip("the container image", "docker is not installed, or no builder answers")
        return
    name = f"spillway-test-{os.getpid()}"
    code, said = run("docker", "build", "-q", "-f", ROOT / "deploy/Dockerfile", "-t", name, ROOT,
                     timeout=3600)
    if not check("docker builds the image", code == 0, said[-2000:]):
        return
    try:
        code, said = run("docker", "run", "-d", "--name", name, name)
        check("it starts", code == 0, said)
        healthy = wait_for(lambda: run("docker", "inspect", "-f", "{{.State.Health.Status}}",
                                       name)[1].strip() == "healthy", 120)
        check("its health check turns healthy", healthy, run("docker", "logs", name)[1][-2000:])
        check("it does not run as root", run("docker", "exec", name, "id", "-u")[1].strip() == "7379")
    finally:
        run("docker", "rm", "-f", name)
        run("docker", "rmi", name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="files,deb,wheel,image")
    parts = parser.parse_args().only.split(",")
    deb, wheel = package("spillway_*.deb"), package("spillway-*.whl")
    if {"files", "deb"} & set(parts) and deb is None or "wheel" in parts and wheel is None:
        print("FAILED: tools/packages.py has not built the packages", file=sys.stderr)
        Tally(failed=1).finish()
    if "files" in parts:
        test_files(deb)
    if "wheel" in parts:
        test_linked_in(wheel)
    if {"deb", "wheel"} & set(parts) and make_base():
        if "deb" in parts:
            test_deb(deb)
        if "wheel" in parts:
            test_wheel(wheel)
    if "image" in parts:
        test_image()
    tally.finish()


if __name__ == "__main__":
    main()
