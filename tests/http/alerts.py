# SPDX-License-Identifier: Apache-2.0
"""The alert rules of deploy/, each with what fires it and what does not, by `promtool test rules`."""
import re, subprocess
from pathlib import Path

RULES = Path(__file__).resolve().parents[2] / "deploy/prometheus/spillway.rules.yml"
STEP_S = 15
# Alert -> (the series that fire it, after how long), as promtool writes values: 'first+stepxtimes'.
# Every series that a rule reads is in WELL, too, with the value it has on a daemon that is well.
BAD = {
    "SpillwayDown": ({'up{job="spillway"}': "1x4 0x40"}, "4m"),
    "SpillwayLostLastCopies": ({'spillway_destroyed_total{reason="room"}': "0x8 1x40"}, "3m"),
    "SpillwayPressureUnknown": ({'spillway_tier_pressure_known{tier="device"}': "1x4 0x40"}, "4m"),
    "SpillwayEmergency": ({'spillway_tier_level{tier="device",level="emergency"}': "0x4 1x40"}, "4m"),
    "SpillwayWritesRefused": ({"spillway_writes_refused_total": "0+3x60"}, "10m"),
    "SpillwayDiskDown": ({"spillway_disk_up": "1x4 0x40"}, "3m"),
    "SpillwayDiskErrors": ({"spillway_disk_errors_total": "0x4 1x40"}, "3m"),
    "SpillwayDamagedCopies": ({"spillway_disk_corrupt_total": "0x4 1x40"}, "3m"),
    "SpillwayDiskReset": ({"spillway_disk_resets_total": "0x4 1x40"}, "3m"),
    "SpillwayDeletesPending": ({"spillway_disk_deletes_pending": "0x4 7x40"}, "4m"),
    "SpillwayAsksRefused": ({"spillway_asks_refused_total": "0x4 1x40"}, "3m"),
    "SpillwayClientsRefused": ({"spillway_clients_refused_total": "0x4 1x40"}, "3m"),
}
# Other series that fire the same alert.
ALSO = [
    ("SpillwayWritesRefused", {"spillway_writes_dropped_total": "0+3x60"}, "10m"),
    ("SpillwayDiskErrors", {"spillway_disk_sync_failures_total": "0x4 1x40"}, "3m"),
    ("SpillwayDiskErrors", {"spillway_disk_delete_flush_failures_total": "0x4 1x40"}, "3m"),
    ("SpillwayDamagedCopies", {"spillway_corrupt_copies_total": "0x4 1x40"}, "3m"),
]
WELL = {
    'up{job="spillway"}': "1x60",
    'spillway_destroyed_total{reason="room"}': "5x60",  # Long ago.
    'spillway_tier_pressure_known{tier="device"}': "1x60",
    'spillway_tier_level{tier="device",level="emergency"}': "0x20 1x2 0x38",  # Half a minute.
    "spillway_writes_refused_total": "9x60",
    "spillway_writes_dropped_total": "0x60",
    "spillway_disk_up": "1x60",
    "spillway_disk_errors_total": "2x60",
    "spillway_disk_sync_failures_total": "0x60",
    "spillway_disk_delete_flush_failures_total": "0x60",
    "spillway_disk_corrupt_total": "0x60",
    "spillway_corrupt_copies_total": "0x60",
    "spillway_disk_resets_total": "0x60",
    "spillway_disk_deletes_pending": "0x30 4x1 0x29",  # A moment.
    "spillway_asks_refused_total": "1x60",
    "spillway_clients_refused_total": "3x60",
}


def of_instance(series):
    name, brace, labels = series.partition("{")
    return f'{name}{{instance="a"{"," + labels if brace else "}"}'


def group(name, series, at, fired):
    lines = [f"  - name: {name}", f"    interval: {STEP_S}s", "    input_series:"]
    for each, values in series.items():
        lines += [f"      - series: '{of_instance(each)}'", f"        values: '{values}'"]
    lines += ["    promql_expr_test:",
              "      - expr: count by (alertname) (count_over_time("  # At any time until then.
              "ALERTS{alertstate=\"firing\"}[15m]))",
              f"        eval_time: {at}"]
    if fired:
        lines += ["        exp_samples:", f"          - labels: '{{alertname=\"{fired}\"}}'",
                  "            value: 1"]
    return lines


def test_file():
    lines = [f"rule_files: ['{RULES}']", f"evaluation_interval: {STEP_S}s", "tests:"]
    lines += group("well", WELL, "14m", None)
    cases = [(name, *case) for name, case in BAD.items()] + ALSO
    for name, series, at in cases:
        lines += group(name, {**WELL, **series}, at, name)
    return "\n".join(lines) + "\n", len(cases)


def check_rules(check, folder):
    named = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    check("every alert has series that fire it", named == set(BAD), named ^ set(BAD))
    text, count = test_file()
    (folder / "alerts.yml").write_text(text)
    done = subprocess.run(["promtool", "test", "rules", folder / "alerts.yml"], capture_output=True,
                          text=True)
    check(f"promtool test rules: {count} cases fire their alert alone, a daemon that is well fires "
          "none", done.returncode == 0, done.stdout + done.stderr)
