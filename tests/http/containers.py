# SPDX-License-Identifier: Apache-2.0
"""The container files of deploy/, without a builder: the Dockerfile by the rules that hadolint has
for what we use (it is no package of Debian), compose.yaml by its structure."""
import json, re, shutil, subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
                "HEALTHCHECK", "ENTRYPOINT", "CMD", "LABEL", "ARG"}
SERVICE_KEYS = {"image", "build", "ports", "volumes", "stop_grace_period", "restart", "environment",
                "depends_on", "command", "healthcheck", "user", "read_only", "networks"}


def steps_of(text):
    """(instruction, the rest) of every line, continued lines joined."""
    joined = re.sub(r"\\\n", " ", text)
    return [tuple(line.split(maxsplit=1)) for line in joined.split("\n")
            if line.strip() and not line.startswith("#")]


def dockerfile_findings(text):
    found = []
    steps = steps_of(text)
    words = [word for word, _ in steps]
    found += [f"no instruction: {word}" for word in words if word not in INSTRUCTIONS]
    if words[0] != "FROM" or words.count("FROM") < 2:
        found.append("it has no several stages")
    stages, last = [], len(words) - 1 - words[::-1].index("FROM")
    for at, (word, rest) in enumerate(steps):
        if word == "FROM":
            image, *name = re.split(r"\s+AS\s+", rest, flags=re.IGNORECASE)
            if ":" not in image or image.endswith(":latest"):
                found.append(f"{image}: an image without a version")
            stages.append(name[0] if name else "")
        if word == "COPY" and (source := re.match(r"--from=(\S+)", rest)):
            if source[1] not in stages[:-1]:
                found.append(f"COPY --from={source[1]}: no earlier stage")
        elif word == "COPY":
            found += [f"COPY {one}: it is not there" for one in rest.split()[:-1]
                      if not (ROOT / one).exists()]
        if word == "WORKDIR" and not rest.startswith("/"):
            found.append(f"WORKDIR {rest}: not absolute")
        if word in ("CMD", "ENTRYPOINT") or word == "HEALTHCHECK":
            command = rest[rest.index("CMD") + 3:] if word == "HEALTHCHECK" else rest
            try:
                json.loads(command)
            except ValueError:
                found.append(f"{word}: not in exec form")
        if word == "EXPOSE":
            found += [f"EXPOSE {one}" for one in rest.split() if not 0 < int(one) < 65536]
        if word == "RUN":
            if re.search(r"\bsudo\b|\bcd /", rest):
                found.append(f"RUN with sudo or cd: {rest[:60]}")
            for part in re.split(r"&&|;", rest):
                if "apt-get install" in part and not ("-y" in part and "--no-install-recommends" in part):
                    found.append(f"apt-get install without -y --no-install-recommends: {part.strip()}")
            if "apt-get install" in rest and at > last and "/var/lib/apt/lists" not in rest:
                found.append("apt's lists are left in the image")
            if re.search(r"(?<!-)\bapt (install|update)", rest):
                found.append("apt is for people; apt-get for scripts")
    for once in ("CMD", "ENTRYPOINT", "HEALTHCHECK"):
        if words[last:].count(once) != 1:
            found.append(f"{once}: {words[last:].count(once)} times in the last stage")
    users = [rest for word, rest in steps[last:] if word == "USER"]
    if not users or users[-1] in ("root", "0"):
        found.append("it runs as root")
    return found


def compose_findings(compose, config):
    found = [f"no key of compose: {key}" for key in set(compose) - {"name", "services", "volumes", "networks"}]
    services, named = compose["services"], set(compose.get("volumes") or {})
    used = set()
    for name, service in services.items():
        found += [f"{name}: no key of a service: {key}" for key in set(service) - SERVICE_KEYS]
        image = service.get("image", "")
        if ":" not in image or image.endswith(":latest"):
            found.append(f"{name}: an image without a version: {image}")
        for port in service.get("ports", []):
            if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port):
                found.append(f"{name}: {port} is not on loopback alone")
        for mount in service.get("volumes", []):
            source, target, *_ = mount.split(":")
            if source.startswith("."):
                if not (DEPLOY / source).exists():
                    found.append(f"{name}: {source} is not there")
            else:
                used.add(source)
            if not target.startswith("/"):
                found.append(f"{name}: {mount}: not absolute")
        found += [f"{name} depends on {other}, which is none" for other in service.get("depends_on", [])
                  if other not in services]
        if build := service.get("build"):
            where = (DEPLOY / build["context"]).resolve()
            if where != ROOT or not (where / build["dockerfile"]).exists():
                found.append(f"{name}: build {build}")
    found += [f"volume {each}" for each in used ^ named]
    # What names another service names one that is there, at the port it has.
    target = config["prometheus"]["scrape_configs"][0]["static_configs"][0]["targets"][0]
    if target != "spillway:7380" or "spillway" not in services:
        found.append(f"Prometheus scrapes {target}")
    if config["source"]["datasources"][0]["url"] != "http://prometheus:9090":
        found.append("Grafana asks another Prometheus")
    folder = config["provider"]["providers"][0]["options"]["path"]
    if not any(f":{folder}/" in mount for mount in services["grafana"]["volumes"]):
        found.append(f"Grafana looks for dashboards in {folder}")
    return found


def check_containers(check, spillwayd):
    text = (DEPLOY / "Dockerfile").read_text()
    found = dockerfile_findings(text)
    check("Dockerfile: several stages, not root, a health check, versions, exec form, clean apt",
          not found, found)
    for what, bad in {"latest": text.replace("debian:12-slim\n", "debian:latest\n"),
                      "root": text.replace("USER 7379\n", ""),
                      "shell form": text.replace('ENTRYPOINT ["spillwayd"]', "ENTRYPOINT spillwayd"),
                      "lists": text.replace("/var/lib/apt/lists/*", ""),
                      "stage": text.replace("--from=build", "--from=built")}.items():
        check(f"Dockerfile: {what} would be found", bad != text and dockerfile_findings(bad))
    done = subprocess.run([spillwayd, "--check-config", "--config", DEPLOY / "spillwayd.toml"],
                          capture_output=True, text=True)
    check("the container's configuration is right", done.returncode == 0, done.stderr)
    hadolint = shutil.which("hadolint")
    if hadolint:
        done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
        check("hadolint", done.returncode == 0, done.stdout)
    check_compose(check)


def check_compose(check):
    try:
        import yaml
    except ImportError:
        print("skipped compose.yaml's structure: python3-yaml is not installed")
        return

    def read(path):
        return yaml.safe_load((DEPLOY / path).read_text())
    compose = read("compose.yaml")
    config = {"prometheus": read("prometheus/prometheus.yml"),
              "source": read("grafana/provisioning/datasources/prometheus.yaml"),
              "provider": read("grafana/provisioning/dashboards/spillway.yaml")}
    found = compose_findings(compose, config)
    check("compose.yaml: keys, loopback, mounts, volumes, what names what", not found, found)
    grace = int(re.fullmatch(r"(\d+)s", compose["services"]["spillway"]["stop_grace_period"])[1])
    check(f"compose.yaml: {grace} s to stop, above stop_flush", grace > 5)
    if shutil.which("docker"):
        done = subprocess.run(["docker", "compose", "-f", DEPLOY / "compose.yaml", "config", "-q"],
                              capture_output=True, text=True)
        if "unknown" in done.stderr or "not a docker command" in done.stderr:
            print("skipped docker compose config: it is not installed")
        else:
            check("docker compose reads it", done.returncode == 0, done.stderr)
