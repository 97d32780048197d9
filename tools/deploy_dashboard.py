#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/deploy_dashboard.py [--check]: writes deploy/grafana/spillway.json, Grafana's dashboard.

The panels are the table below: a title, a unit, and PromQL with its legend. tests/http/watch.py asks
each of a live daemon. --check ends with 1 if the file differs.
"""

import json
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "deploy/grafana/spillway.json"
I = 'instance=~"$instance"'
R = "[$__rate_interval]"

# (width of 24, height, kind, title, unit, [(expression, legend)])
PANELS = [
    (4, 4, "stat", "Contexts", "short", [(f"sum(spillway_entries{{{I}}})", "")]),
    (4, 4, "stat", "Tokens", "short", [(f"sum(spillway_tokens{{{I}}})", "")]),
    (4, 4, "stat", "Hit ratio, 5 min", "percentunit", [
        (f"sum(rate(spillway_hits_total{{{I}}}[5m])) / (sum(rate(spillway_hits_total{{{I}}}[5m])) "
         f"+ sum(rate(spillway_misses_total{{{I}}}[5m])))", "")]),
    (4, 4, "stat", "Prefill saved", "s", [
        (f"sum(spillway_hit_tokens_total{{{I}}} * spillway_prefill_seconds_per_token{{{I}}})", "")]),
    (4, 4, "stat", "Destroyed last copies, 1 h", "short", [
        (f"sum(increase(spillway_destroyed_total{{{I}}}[1h]))", "")]),
    (4, 4, "stat", "Up since", "dateTimeFromNow", [
        (f"min(spillway_start_time_seconds{{{I}}}) * 1000", "")]),
    (12, 8, "lines", "Pressure", "percentunit", [
        (f"spillway_tier_pressure_ratio{{{I}}}", "{{instance}} {{tier}}")]),
    (12, 8, "lines", "Level", "short", [
        (f'spillway_tier_level{{{I},level!="relaxed"}} == 1', "{{instance}} {{tier}} {{level}}")]),
    (12, 8, "stack", "Device memory", "bytes", [
        (f'spillway_tier_other_processes_bytes{{{I},tier="device"}}', "other processes"),
        (f'spillway_tier_held_bytes{{{I},tier="device"}} - '
         f'spillway_tier_reclaimable_bytes{{{I},tier="device"}}', "dirty"),
        (f'spillway_tier_reclaimable_bytes{{{I},tier="device"}}', "clean"),
        (f'spillway_tier_free_bytes{{{I},tier="device"}}', "free")]),
    (12, 8, "lines", "Bytes held, of capacity", "percentunit", [
        (f"spillway_tier_bytes{{{I}}} / (spillway_tier_capacity_bytes{{{I}}} > 0)",
         "{{instance}} {{tier}}")]),
    (12, 8, "lines", "Reads a second", "ops", [
        (f"sum by (instance) (rate(spillway_read_seconds_count{{{I}}}{R}))", "{{instance}} reads"),
        (f'sum by (instance) (rate(spillway_command_calls_total{{{I},command=~"set|spill.set"}}{R}))',
         "{{instance}} sets")]),
    (12, 8, "lines", "Read latency", "s", [
        (f"histogram_quantile(0.5, sum by (le) (rate(spillway_read_seconds_bucket{{{I}}}{R})))", "p50"),
        (f"histogram_quantile(0.99, sum by (le) (rate(spillway_read_seconds_bucket{{{I}}}{R})))", "p99")]),
    (12, 8, "lines", "Copied between tiers", "Bps", [
        (f"sum by (tier, direction) (rate(spillway_tier_copied_bytes_total{{{I}}}{R}))",
         "{{tier}} {{direction}}")]),
    (12, 8, "lines", "Evictions and removals a second", "ops", [
        (f"sum by (reason) (rate(spillway_removals_total{{{I}}}{R})) > 0", "{{reason}}")]),
    (8, 8, "lines", "Destroyed last copies", "short", [
        (f"sum by (reason) (increase(spillway_destroyed_total{{{I}}}{R}))", "{{reason}}")]),
    (8, 8, "lines", "Give-back", "s", [
        (f"histogram_quantile(0.99, sum by (le) (rate(spillway_give_back_seconds_bucket{{{I}}}[5m])))",
         "p99")]),
    (8, 8, "lines", "Refused", "ops", [
        (f"sum by (why) (rate(spillway_sets_refused_total{{{I}}}{R}))", "sets, {{why}}"),
        (f"sum(rate(spillway_asks_refused_total{{{I}}}{R}))", "asks"),
        (f"sum(rate(spillway_clients_refused_total{{{I}}}{R}))", "clients")]),
    (12, 8, "lines", "Disk tier", "Bps", [
        (f"rate(spillway_disk_written_bytes_total{{{I}}}{R})", "{{instance}} written"),
        (f"rate(spillway_disk_read_bytes_total{{{I}}}{R})", "{{instance}} read")]),
    (12, 8, "lines", "Disk trouble", "short", [
        (f"increase(spillway_disk_errors_total{{{I}}}[5m])", "{{instance}} errors"),
        (f"increase(spillway_disk_corrupt_total{{{I}}}[5m])", "{{instance}} damaged"),
        (f"1 - spillway_disk_up{{{I}}}", "{{instance}} down")]),
]
LOSS = ("Destroyed last copies", "Destroyed last copies, 1 h", "Disk trouble")


def panel(number, row, at):
    width, height, kind, title, unit, queries = row
    defaults = {"unit": unit}
    if title in LOSS:
        defaults |= {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": [
            {"color": "green", "value": None}, {"color": "red", "value": 0.5}]}}
    if kind == "stack":
        defaults["custom"] = {"stacking": {"mode": "normal"}, "fillOpacity": 40}
    return {"id": number, "title": title, "type": "stat" if kind == "stat" else "timeseries",
            "datasource": {"type": "prometheus", "uid": "prometheus"},
            "gridPos": {"x": at[0], "y": at[1], "w": width, "h": height},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "targets": [{"refId": chr(65 + i), "expr": expr, "legendFormat": legend}
                        for i, (expr, legend) in enumerate(queries)]}


def dashboard():
    panels, x, y, high = [], 0, 0, 0
    for number, row in enumerate(PANELS, 1):
        if x + row[0] > 24:
            x, y, high = 0, y + high, 0
        panels.append(panel(number, row, (x, y)))
        x, high = x + row[0], max(high, row[1])
    return {"uid": "spillway", "title": "Spillway", "schemaVersion": 39, "version": 1,
            "tags": ["spillway"], "time": {"from": "now-30m", "to": "now"}, "refresh": "5s",
            "templating": {"list": [{
                "name": "instance", "type": "query", "label": "instance", "multi": True,
                "includeAll": True, "current": {"text": "All", "value": "$__all"}, "refresh": 2,
                "datasource": {"type": "prometheus", "uid": "prometheus"},
                "query": "label_values(spillway_build_info, instance)"}]},
            "panels": panels}


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in sys.argv:
        if OUT.read_text() != text:
            print(f"{OUT.name} is not what tools/deploy_dashboard.py writes", file=sys.stderr)
            return 1
        return 0
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
