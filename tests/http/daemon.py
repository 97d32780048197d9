#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""daemon.py SPILLWAYD SPILLWAY: the daemon's HTTP side as monitors and pages see it,
and what `spillway stats` and `spillway explain` say of it."""
import base64, http.client, json, os, re, shutil, socket, subprocess, sys, tempfile, time
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"
spillwayd, spillway = sys.argv[1:3]
PASSWORD = "open sesame"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    def __init__(self, folder, server="", more=""):
        self.sock = os.path.join(folder, "s.sock")
        config = os.path.join(folder, "d.toml")
        for _ in range(5):  # Another process may have taken the free port: the daemon then ends.
            self.port = free_port()
            with open(config, "w") as f:
                f.write(f'{more}\n[server]\nport = 0\nhttp_port = {self.port}\n{server}\n')
            self.process = subprocess.Popen([spillwayd, "--config", config, "--socket", self.sock],
                                            stderr=subprocess.PIPE, text=True)
            if self.answers():
                return
            self.process.kill()
            said = self.process.communicate()[1]
        raise SystemExit("it does not answer: " + said)

    def answers(self):
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self.get("/healthz", headers={})
                return self.process.poll() is None  # Not the answer of another process.
            except OSError:
                time.sleep(.05)
        return False

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())

    def get(self, path, headers=None):
        return self.ask("GET", path, headers=headers)

    def resp(self, *words):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.sock)
            line = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
            s.sendall(line.encode())
            return s.recv(65536).decode()

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


def check(what, holds, saw=""):
    print(("ok    " if holds else "FAILED") + f" {what}", "" if holds else f"saw: {saw}"[:2000])
    if not holds:
        check.failed += 1


check.failed = 0


def sample(text, name):
    return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                 if line.startswith(name + " ")), None)


def open_daemon(folder):
    # On a busy machine, too, pressure is known; near to a threshold it is looked at every 8 ms.
    daemon = Daemon(folder, more=f'capacity = "64MiB"\npressure_source = "file:{folder}/pressure"\n'
                                 'sample_period = "1s"')
    check("ready", daemon.get("/readyz")[0] == 200)
    for i in range(50):
        daemon.resp("SET", f"key-{i}", "x" * 1000)
    daemon.resp("GET", "key-7")
    status, text, headers = daemon.get("/metrics")
    check("metrics are text", headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers)
    check("they count", sample(text, "spillway_entries") == 50 and
          sample(text, "spillway_commands_total") >= 51, text)
    check("of each command", 'spillway_command_calls_total{command="set"} 50' in text, text)
    check("they name no keys", "key-" not in text, text)
    if shutil.which("promtool"):
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                              capture_output=True)
        check("promtool finds nothing", lint.returncode == 0 and not lint.stdout + lint.stderr,
              lint.stdout + lint.stderr)
    else:
        print("skipped promtool: it is not installed (Debian's prometheus)")
    page = json.loads(daemon.get("/api/v1/contexts?search=key-4&sort=key&limit=3")[1])
    check("contexts", page["total"] == 50 and page["matching"] == 11 and
          [row["key"] for row in page["contexts"]] == ["key-4", "key-40", "key-41"], page)
    check("explain", "key-7" in json.loads(daemon.get("/api/v1/explain?key=key-7")[1])["explain"])
    commands(daemon)
    status, body, _ = daemon.ask("POST", "/api/v1/drop", '{"key":"key-7"}',
                                 {"Content-Type": "application/json"})
    check("nothing is changed without a password", status == 403 and "password" in body, body)
    check("and nothing was", daemon.resp("EXISTS", "key-7") == ":1\r\n")
    check("another name", daemon.get("/metrics", {"Host": "evil.example"})[0] == 421)
    check("another page", daemon.get("/metrics", {"Origin": "http://evil.example"})[0] == 403)

    # A change of level and a removal reach the clients of the stream.
    live = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
    live.request("GET", "/api/v1/live?every=100ms")
    stream = live.getresponse()
    daemon.resp("DEL", "key-3")
    with open(folder + "/pressure.new", "w") as f:
        f.write("0.97\n")
    os.rename(folder + "/pressure.new", folder + "/pressure")
    heard, start = set(), time.time()
    while time.time() - start < 60 and not {"state", "left", "level"} <= heard:
        line = stream.readline().decode()
        if line.startswith("event: "):
            heard.add(line[7:].strip())
    check("the stream tells", {"state", "left", "level"} <= heard, heard)
    check("EMERGENCY is seen", json.loads(daemon.get("/api/v1/stats")[1])["mode"] == "emergency")
    check("HTTP is not RESP", daemon_says(daemon, b"*1\r\n$4\r\nPING\r\n").startswith(b"HTTP/1.1 400"))
    other = subprocess.run([spillwayd, "--port", "0", "--socket", folder + "/o.sock", "--http-port",
                            str(daemon.port), "--for", "5s"], capture_output=True, text=True)
    check("a port that is taken is named",
          other.returncode != 0 and str(daemon.port) in other.stderr, other.stderr)
    check("it ends well", daemon.stop() == 0)


def told(*words):
    done = subprocess.run([spillway, *words], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr


def commands(daemon):
    code, text = told("stats", "--socket", daemon.sock)
    check("spillway stats", code == 0 and "50 entries" in text and "device" in text, (code, text))
    code, text = told("stats", "--socket", daemon.sock, "--json")
    check("as JSON", code == 0 and json.loads(text)["entries"] == 50, (code, text))
    code, text = told("explain", "key-7", "--socket", daemon.sock)
    check("spillway explain", code == 0 and "'key-7' is in the device tier" in text, (code, text))
    code, text = told("stats", "--socket", daemon.sock + ".none")
    check("nobody there", code == 1 and "--url" in text, (code, text))


def daemon_says(daemon, noise):
    with socket.socket() as s:
        s.settimeout(20)
        s.connect(("127.0.0.1", daemon.port))
        s.sendall(noise)
        return s.recv(4096)


METRICS_HEAD = """# Metrics

<!-- Written by tools/write_settings_page.sh from /metrics of a daemon with all tiers; a test holds it
to that. -->

What `GET /metrics` of `spillwayd` shows. Families of a tier, of the policy `score` and of `trace` are
absent without them. [http.md](http.md#metrics) says what is worth an alarm,
[renamed.md](renamed.md) which names changed.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def families(text):
    """name -> [type, labels, help], in the order of the page."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, help_text = line[7:].split(" ", 1)
            found[name] = ["", [], help_text]
        elif line.startswith("# TYPE "):
            name, found[name][0] = line[7:].split(" ")
        else:
            labels = re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', line)
            found[name][1] += [label for label in labels if label not in found[name][1]]
    return found


def reference_daemon(folder):
    """The pages of docs/reference have every metric, and name no other."""
    daemon = Daemon(folder, more=f'capacity = "64MiB"\nhost_capacity = "64MiB"\n'
                                 f'disk_dir = "{folder}/disk"\ndisk_capacity = "64MiB"\n'
                                 f'trace = "{folder}/trace"\npressure_source = "fixed:0.5"\n')
    daemon.resp("SET", "key", "x")
    end = time.monotonic() + 60  # Until pressure has been read: without it some have no samples.
    text = ""
    while time.monotonic() < end and not ("spillway_reading_age_seconds{" in text and
                                          "spillway_tier_pressure_ratio{" in text):
        text = daemon.get("/metrics")[1]
    shown = families(text)
    page = METRICS_HEAD + "".join(
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |\n"
        for name, (kind, labels, text) in shown.items())
    path = REFERENCE / "metrics.md"
    if os.environ.get("SPILLWAY_WRITE_PAGES"):
        path.write_text(page)
    wrong = set(path.read_text().splitlines() if path.exists() else []) ^ set(page.splitlines())
    check("metrics.md is what /metrics shows (tools/write_settings_page.sh writes it)", not wrong,
          wrong)
    renamed = (REFERENCE / "renamed.md").read_text().split("\n## Metrics\n")[1].split("\n## ")[0]
    new_name = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", renamed, re.M))
    silent = [new for old, new in new_name.items()
              if f"(Was {old}.)" not in shown.get(new, ["", [], ""])[2]]
    check("each new name has its old one in its help", len(new_name) > 20 and not silent, silent)
    alive = [old for old in new_name if old in shown and old not in new_name.values()]
    check("no metric has an old name", not alive, alive)
    for other in (REFERENCE / "http.md", REFERENCE.parent / "dashboard.md"):
        named = set(re.findall(r"spillway_[a-z_]+[a-z]\b(?!_)", other.read_text()))
        unknown = [name for name in named
                   if name not in shown and re.sub("_(count|sum|bucket)$", "", name) not in shown]
        check(f"{other.name} names only metrics there are", named and not unknown, unknown)
    check("it ends well", daemon.stop() == 0)


def old_names_daemon(folder):
    """An old name of a setting is an error with the new one."""
    def refused(*words):
        done = subprocess.run([spillwayd, "--socket", folder + "/n.sock", "--for", "5s", *words],
                              capture_output=True, text=True)
        return done.returncode, done.stderr

    code, text = refused("--write-behind-after", "1s")
    check("as a flag", code == 2 and "'--write-behind-after': it is now write_back_after" in text,
          (code, text))
    config = folder + "/old.toml"
    with open(config, "w") as f:
        f.write('\nwrite_behind_rate = "1MiB"\n')
    code, text = refused("--config", config)
    check("in a file", code == 2 and
          "old.toml:2: unknown setting 'write_behind_rate': it is now write_back_rate" in text,
          (code, text))
    daemon = Daemon(folder)
    for words in (("CONFIG", "SET", "write_behind_after", "1s"),
                  ("CONFIG", "GET", "write_behind_after")):
        said = daemon.resp(*words)
        check(" ".join(words[:2]), "it is now write_back_after" in said, said)
    check("it ends well", daemon.stop() == 0)


def closed_daemon(folder):
    daemon = Daemon(folder, f'password = "{PASSWORD}"')
    bearer = {"Authorization": "Bearer " + PASSWORD, "Content-Type": "application/json"}
    check("health needs no password", daemon.get("/healthz")[0] == 200)
    check("a command needs it", "password" in told("stats", "--socket", daemon.sock)[1])
    with open(folder + "/word", "w") as f:
        f.write(PASSWORD + "\n")
    check("and has it", told("stats", "--socket", daemon.sock, "--password-file",
                             folder + "/word")[0] == 0)
    check("metrics do", daemon.get("/metrics")[0] == 401)
    check("a wrong one", daemon.get("/metrics", {"Authorization": "Bearer x"})[0] == 401)
    check("the right one", daemon.get("/metrics", bearer)[0] == 200)
    word = base64.b64encode(f"prometheus:{PASSWORD}".encode()).decode()
    check("as monitors send it", daemon.get("/metrics", {"Authorization": "Basic " + word})[0] == 200)
    status, body, _ = daemon.ask("POST", "/api/v1/drop", '{"key":"none"}', bearer)
    check("changes", status == 200 and json.loads(body) == {"dropped": False}, body)
    status, body, _ = daemon.ask("POST", "/api/v1/reclaim", '{"bytes":"1GiB","within":"1s"}', bearer)
    check("reclaim says why not more", status == 200 and json.loads(body)["why_not_more"], body)
    check("the password is said nowhere", PASSWORD not in daemon.get("/metrics", bearer)[1])
    check("it ends well", daemon.stop() == 0)
    check("nor in the log", PASSWORD not in daemon.process.stderr.read())


def wide_daemon(folder):
    config = os.path.join(folder, "wide.toml")
    with open(config, "w") as f:
        f.write('[server]\nport = 0\nhttp_bind = "0.0.0.0"\n')
    told = subprocess.run([spillwayd, "--config", config, "--socket", folder + "/w.sock", "--for",
                           "5s"], capture_output=True, text=True)
    check("open to all needs a password", told.returncode == 2 and "http_bind" in told.stderr,
          told.stderr)


with tempfile.TemporaryDirectory(prefix="spillway-http-") as root:
    for part in (open_daemon, reference_daemon, old_names_daemon, closed_daemon, wide_daemon):
        folder = os.path.join(root, part.__name__)
        os.mkdir(folder)
        with open(folder + "/pressure", "w") as f:
            f.write("0.65\n")
        part(folder)
sys.exit(1 if check.failed else 0)
