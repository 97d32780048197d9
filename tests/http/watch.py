#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""watch.py SPILLWAYD: what deploy/ ships, over a live daemon.

Every query of Grafana's dashboard and of the alert rules is asked of a Prometheus that scrapes a
daemon with all tiers, and every metric they name is one that it shows. promtool checks the rules.
alerts.py has for every alert the series that fire it; a daemon that destroys last copies and refuses
an ask fires theirs. containers.py looks at the container files. Without Debian's prometheus it ends
with 77: skipped."""
import json, os, re, shutil, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request
from pathlib import Path

from alerts import RULES, check_rules
from containers import check_containers

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


def fetch(url, headers=None):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=10) as answer:
        return answer.read().decode()


def until(what, seconds=60):
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


def queries():
    """(title, expression) of every query, with Grafana's variables filled in."""
    for panel in json.loads((DEPLOY / "grafana/spillway.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$instance", ".*").replace(
                "$__rate_interval", "10s")
    for name, expr in re.findall(r"- alert: (\w+)\n +expr: (.*)$", RULES.read_text(), re.MULTILINE):
        yield f"alert {name}", expr


def main():
    check_containers(check, spillwayd)
    done = subprocess.run([sys.executable, ROOT / "tools/deploy_dashboard.py", "--check"])
    check("the dashboard is what its script writes", done.returncode == 0)
    with tempfile.TemporaryDirectory() as folder:
        in_the_container(Path(folder))
    if not shutil.which("promtool") or not shutil.which("prometheus"):
        print("skipped the rest: prometheus is not installed")
        return 1 if failed else 77
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
    check("promtool check rules", done.returncode == 0, done.stdout + done.stderr)
    check("it found all of them", f"{RULES.read_text().count('alert:')} rules" in done.stdout, done.stdout)
    with tempfile.TemporaryDirectory() as folder:
        check_rules(check, Path(folder))
        os.environ["SPILLWAY_RUN_DIR"] = folder
        live(Path(folder))
    print("failed:", failed)
    return 1 if failed else 0


def in_the_container(folder):
    """The container's configuration, on other ports: its health check, and Prometheus beside it."""
    port, web = free_port(), free_port()
    text = (DEPLOY / "spillwayd.toml").read_text().replace("/var/lib/spillway", f"{folder}/disk")
    (folder / "c.toml").write_text(f'{text}port = {port}\nhttp_port = {web}\nsocket = ""\n')
    daemon = subprocess.Popen([spillwayd, "--config", folder / "c.toml"], stderr=subprocess.DEVNULL)
    try:
        until(lambda: fetch(f"http://127.0.0.1:{web}/readyz"))
        words = json.loads(re.search(r"CMD (\[\"spillway\".*\])", (DEPLOY / "Dockerfile").read_text())[1])
        words[0] = str(Path(spillwayd).parent / "spillway")
        done = subprocess.run([word.replace("7380", str(web)) for word in words], capture_output=True,
                              text=True)
        check("the container's health check answers", done.returncode == 0, done.stderr)
        page = fetch(f"http://127.0.0.1:{web}/metrics", {"Host": "spillway:7380"})
        check("the container answers Prometheus by its name", "spillway_entries" in page)
    finally:
        daemon.terminate()
        daemon.wait(60)


def start(folder, name, settings, port, web):
    (folder / f"{name}.toml").write_text(
        f'{settings}\n[server]\nport = {port}\nhttp_port = {web}\nsocket = ""\n')
    return subprocess.Popen([spillwayd, "--config", folder / f"{name}.toml"], stderr=subprocess.DEVNULL)


def live(folder):
    """Two daemons under one Prometheus: one is well, the other loses contexts and refuses asks."""
    port, web, prom = free_port(), free_port(), free_port()
    lossy_port, lossy_web = free_port(), free_port()
    (folder / "spillway.rules.yml").write_text(RULES.read_text())
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    check("Prometheus scrapes one target", text.count('"spillway:7380"') == 1, text)
    (folder / "prometheus.yml").write_text(
        text.replace('"spillway:7380"', f'"127.0.0.1:{web}", "127.0.0.1:{lossy_web}"').replace("5s", "1s"))
    done = subprocess.run(["promtool", "check", "config", folder / "prometheus.yml"],
                          capture_output=True, text=True)
    check("promtool check config", done.returncode == 0, done.stdout + done.stderr)
    card = f"watch-{os.getpid()}"
    running = [
        start(folder, "well", f'capacity = "4MiB"\nhost_capacity = "4MiB"\ndisk_dir = "{folder}/disk"\n'
              f'disk_capacity = "16MiB"\ntrace = "{folder}/trace"', port, web),
        # A chunk of the largest card: the card is a part of the RAM that is free.
        start(folder, "lossy", f'card = "{card}"\ncapacity = "32MiB"\nreserve = 0.0', lossy_port, lossy_web),
        subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/p",
             f"--web.listen-address=127.0.0.1:{prom}"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)]
    try:
        for each in (web, lossy_web):
            check("a daemon answers", bool(until(lambda at=each: fetch(f"http://127.0.0.1:{at}/metrics"))))
        ask_all(port, web, prom)
        lose(folder, card, lossy_port, lossy_web, prom, f"127.0.0.1:{web}")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(60)


def scraped_twice(prom, instance):
    rows = ask(prom, f'count_over_time(spillway_entries{{instance="{instance}"}}[1m])')["data"]["result"]
    return rows and float(rows[0]["value"][1]) >= 2


def lose(folder, card, port, web, prom, well):
    """Last copies are destroyed and an ask is refused: both alerts fire, for that daemon alone."""
    until(lambda: scraped_twice(prom, f"127.0.0.1:{web}"))
    resp(port, *[(b"SET", b"big-%d" % i, b"x" * 400_000) for i in range(100)])
    door = next(folder.glob(f"ask-{card}-*"))
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(30)
        link.connect(str(door))
        link.sendall(b"hand it over\n")
        check("what is no ask is refused", link.recv(200).startswith(b"ERR"))
    wanted = {"SpillwayLostLastCopies", "SpillwayAsksRefused"}

    def firing():
        rows = ask(prom, 'ALERTS{alertstate="firing"}')["data"]["result"]
        return {(one["metric"]["alertname"], one["metric"]["instance"]) for one in rows}
    until(lambda: wanted <= {name for name, _ in firing()})
    fired = firing()
    check("last copies destroyed, an ask refused: both alerts fire", wanted <= {n for n, _ in fired}, fired)
    check("and none for the daemon that is well", all(at != well for _, at in fired), fired)


def ask(prom, expr):
    query = urllib.parse.urlencode({"query": expr})
    return json.loads(fetch(f"http://127.0.0.1:{prom}/api/v1/query?{query}"))


def ask_all(port, web, prom):
    def work():
        resp(port, *[(b"SET", b"key-%d" % i, b"x" * 40_000) for i in range(40)],
             *[(b"GET", b"key-%d" % i) for i in range(40)], (b"GET", b"none"))
        return True
    work()
    until(lambda: scraped_twice(prom, f"127.0.0.1:{web}"))  # Rates need two scrapes.
    known = set(re.findall(r"^# TYPE (\w+)", fetch(f"http://127.0.0.1:{web}/metrics"), re.MULTILINE))
    count = 0
    quiet = {"Level", "alert"}  # Right when there is nothing to say.
    for title, expr in queries():
        count += 1
        names = set(re.findall(r"\bspillway_\w+", expr))
        strange = {name for name in names if name not in known
                   and re.sub(r"_(bucket|count|sum)$", "", name) not in known}
        check(f"{title}: it names metrics of the daemon", not strange, strange)
        silent = title.split()[0] in quiet or "> 0" in expr
        answer = {}

        def said(expr=expr, silent=silent):
            # What is asked for has to happen within the window: again, while it is waited for.
            work()
            answer.update(ask(prom, expr))
            return answer["status"] == "success" and (silent or answer["data"]["result"])
        check(f"{title}: {expr[:60]} answers", bool(until(said)), answer)
    print(f"{count} queries asked")


if __name__ == "__main__":
    sys.exit(main())
