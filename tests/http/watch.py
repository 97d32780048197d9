#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""watch.py SPILLWAYD: what deploy/ ships, over a live daemon.

Every query of Grafana's dashboard and of the alert rules is asked of a Prometheus that scrapes a
daemon with all tiers, and every metric they name is one that it shows. promtool checks the rules.
A last copy that is destroyed fires its alert. The container files are linted. Without Debian's
prometheus it ends with 77: skipped."""
import json, os, re, shutil, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
spillwayd = sys.argv[1]
failed = 0


def check(what, holds, saw=""):
    global failed
    print(("ok    " if holds else "FAILED") + f" {what}", "" if holds else f"saw: {saw}"[:2000])
    failed += not holds


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except OSError:
            pass
        time.sleep(0.1)
    return None


def resp(port, *commands):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        for words in commands:
            link.sendall(f"*{len(words)}\r\n".encode() +
                         b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            link.recv(65536)


def lint_containers():
    lines = (DEPLOY / "Dockerfile").read_text()
    steps = [line.split() for line in re.sub(r"\\\n", " ", lines).split("\n")
             if line and not line.startswith("#")]
    words = [step[0] for step in steps]
    last = len(words) - 1 - words[::-1].index("FROM")
    check("Dockerfile: several stages", words.count("FROM") >= 2)
    check("Dockerfile: every image has a version", all(":" in s[1] and "latest" not in s[1]
                                                       for s in steps if s[0] == "FROM"))
    users = [s[1] for s in steps[last:] if s[0] == "USER"]
    check("Dockerfile: not root", users and users[-1] not in ("root", "0"), users)
    check("Dockerfile: a health check", "HEALTHCHECK" in words[last:])
    known = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
             "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    check("Dockerfile: only instructions there are", set(words) <= known, set(words) - known)
    copied = [s[1] for s in steps if s[0] == "COPY" and not s[1].startswith("--")]
    check("Dockerfile: what it copies is there", all((ROOT / one).exists() for one in copied), copied)
    done = subprocess.run([spillwayd, "--check-config", "--config", DEPLOY / "spillwayd.toml"],
                          capture_output=True, text=True)
    check("the container's configuration is right", done.returncode == 0, done.stderr)
    compose = (DEPLOY / "compose.yaml").read_text()
    for port in re.findall(r'^ +- "([^"]*\d:\d+)"', compose, re.MULTILINE):
        check(f"compose publishes {port} on loopback", port.startswith("127.0.0.1:"))
    for path in re.findall(r"- (\./[^:]+):", compose):
        check(f"compose mounts {path}, which is there", (DEPLOY / path).exists())
    check("compose gives the daemon more than stop_flush", "stop_grace_period: 30s" in compose)
    if shutil.which("docker"):
        done = subprocess.run(["docker", "compose", "-f", DEPLOY / "compose.yaml", "config", "-q"],
                              capture_output=True, text=True)
        if "unknown" in done.stderr or "not a docker command" in done.stderr:
            print("skipped docker compose: it is not installed")
        else:
            check("docker compose reads it", done.returncode == 0, done.stderr)


def queries():
    """(title, expression) of every query, with Grafana's variables filled in."""
    for panel in json.loads((DEPLOY / "grafana/spillway.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$instance", ".*").replace(
                "$__rate_interval", "10s")
    rules = (DEPLOY / "prometheus/spillway.rules.yml").read_text()
    for name, expr in re.findall(r"- alert: (\w+)\n +expr: (.*)$", rules, re.MULTILINE):
        yield f"alert {name}", expr


def main():
    lint_containers()
    done = subprocess.run([sys.executable, ROOT / "tools/deploy_dashboard.py", "--check"])
    check("the dashboard is what its script writes", done.returncode == 0)
    if not shutil.which("promtool") or not shutil.which("prometheus"):
        print("skipped the rest: prometheus is not installed")
        return 1 if failed else 77
    done = subprocess.run(["promtool", "check", "rules", DEPLOY / "prometheus/spillway.rules.yml"],
                          capture_output=True, text=True)
    check("promtool check rules", done.returncode == 0, done.stdout + done.stderr)
    check("it found all of them", f"{len(re.findall('alert:', (DEPLOY / 'prometheus/spillway.rules.yml').read_text()))} rules" in done.stdout, done.stdout)
    with tempfile.TemporaryDirectory() as folder:
        live(Path(folder))
    print("failed:", failed)
    return 1 if failed else 0


def live(folder):
    port, web, prom = free_port(), free_port(), free_port()
    (folder / "pressure").write_text("0.1\n")
    (folder / "d.toml").write_text(
        f'capacity = "4MiB"\nhost_capacity = "4MiB"\ndisk_dir = "{folder}/disk"\n'
        f'disk_capacity = "16MiB"\ntrace = "{folder}/trace"\n'
        f'[server]\nport = {port}\nhttp_port = {web}\nsocket = ""\n')
    rules = (DEPLOY / "prometheus/spillway.rules.yml").read_text()
    (folder / "spillway.rules.yml").write_text(rules)
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    (folder / "prometheus.yml").write_text(
        text.replace("spillway:7380", f"127.0.0.1:{web}").replace("5s", "1s"))
    done = subprocess.run(["promtool", "check", "config", folder / "prometheus.yml"],
                          capture_output=True, text=True)
    check("promtool check config", done.returncode == 0, done.stdout + done.stderr)
    daemon = subprocess.Popen([spillwayd, "--config", folder / "d.toml"], stderr=subprocess.DEVNULL)
    watcher = subprocess.Popen(
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/p",
         f"--web.listen-address=127.0.0.1:{prom}"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        page = until(lambda: fetch(f"http://127.0.0.1:{web}/metrics"))
        check("the daemon answers", bool(page))
        ask_all(port, web, prom)
    finally:
        for process in (watcher, daemon):
            process.terminate()
            process.wait(30)


def ask(prom, expr):
    query = urllib.parse.urlencode({"query": expr})
    return json.loads(fetch(f"http://127.0.0.1:{prom}/api/v1/query?{query}"))


def ask_all(port, web, prom):
    def work():
        resp(port, *[(b"SET", b"key-%d" % i, b"x" * 40_000) for i in range(40)],
             *[(b"GET", b"key-%d" % i) for i in range(40)], (b"GET", b"none"))
        return True
    work()
    # Rates need two scrapes.
    until(lambda: ask(prom, "count_over_time(spillway_entries[1m])")["data"]["result"]
          and float(ask(prom, "count_over_time(spillway_entries[1m])")["data"]["result"][0]["value"][1]) >= 2)
    work()
    until(lambda: any(float(one["value"][1]) > 0 for one in ask(
        prom, "rate(spillway_read_seconds_count[10s])")["data"]["result"]))
    known = set(re.findall(r"^# TYPE (\w+)", fetch(f"http://127.0.0.1:{web}/metrics"), re.MULTILINE))
    count = 0
    quiet = {"Level", "alert"}  # Right when there is nothing to say.
    for title, expr in queries():
        answer = ask(prom, expr)
        count += 1
        names = set(re.findall(r"\bspillway_\w+", expr))
        strange = {name for name in names if name not in known
                   and re.sub(r"_(bucket|count|sum)$", "", name) not in known}
        check(f"{title}: it names metrics of the daemon", not strange, strange)
        rows = answer.get("data", {}).get("result", [])
        said = answer["status"] == "success" and (rows or title.split()[0] in quiet or "> 0" in expr)
        check(f"{title}: {expr[:60]} answers", said, answer)
    fired = {one["metric"]["alertname"] for one in
             ask(prom, 'ALERTS{alertstate="firing"}')["data"]["result"]}
    check("no alert fires on a daemon that is well", not fired, fired)
    print(f"{count} queries asked")


if __name__ == "__main__":
    sys.exit(main())
