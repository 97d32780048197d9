// SPDX-License-Identifier: Apache-2.0
// The overview: figures, the tiers over time, basins, the latest events.
import { h, replace } from "../dom";
import { Basins } from "./basins";
import { TierChart } from "./chart";
import { EventList } from "./event_list";
import { Processes } from "./processes";
import { Tiles } from "./tiles";
import type { Store } from "../store";
import { TIERS, type TierName } from "../types";
import type { View } from "./view";

const SPANS: [string, number][] = [
  ["2 min", 120],
  ["15 min", 900],
  ["1 h", 3600],
];
const LATEST = 12;
const LEGEND: [string, string][] = [
  ["line", "pressure"],
  ["others", "other processes"],
  ["unbacked", "dirty"],
  ["backed", "clean"],
  ["free", "free"],
  ["reserve", "reserve"],
];

export class Overview implements View {
  readonly element: HTMLElement;
  private readonly tiles: Tiles;
  private readonly basins: Basins;
  private readonly latest: EventList;
  private readonly processes: Processes;
  private readonly charts = h("div", { class: "charts" });
  private names = "";
  private drawn: TierChart[] = [];
  private span = 120;

  constructor(private readonly store: Store) {
    this.tiles = new Tiles(store);
    this.basins = new Basins(store);
    this.processes = new Processes(store);
    this.latest = new EventList(store, { most: LATEST, brief: true });
    const spans = h(
      "fieldset",
      { class: "spans" },
      h("legend", { class: "hidden" }, "Time shown"),
      ...SPANS.map(([label, seconds]) => this.spanButton(label, seconds)),
    );
    const legend = h("ul", { class: "legend" }, ...LEGEND.map(([id, text]) => h("li", {}, h("i", { class: `part ${id}` }), text)));
    const charts = h(
      "section",
      { class: "panel", "aria-labelledby": "memory-title" },
      h("header", {}, h("h2", { id: "memory-title" }, "Memory"), legend, spans),
      this.charts,
    );
    const basins = h("section", { class: "panel", "aria-labelledby": "tiers-title" }, h("header", {}, h("h2", { id: "tiers-title" }, "Tiers and what flows between them")), this.basins.element);
    const events = h(
      "section",
      { class: "panel latest", "aria-labelledby": "latest-title" },
      h("header", {}, h("h2", { id: "latest-title" }, "What happened last"), h("a", { href: "#events" }, "all events")),
      this.latest.element,
    );
    this.element = h("div", { class: "overview" }, this.tiles.element, h("div", { class: "split" }, charts, events), basins, this.processes.element);
  }

  private spanButton(label: string, seconds: number): HTMLElement {
    const input = h("input", {
      type: "radio",
      name: "span",
      checked: seconds === this.span,
      onchange: () => {
        this.span = seconds;
        for (const chart of this.drawn) chart.rebuild();
      },
    });
    return h("label", {}, input, h("span", {}, label));
  }

  shown(): void {
    for (const chart of this.drawn) chart.rebuild();
  }

  hidden(): void {}

  redraw(): void {
    for (const chart of this.drawn) chart.rebuild();
  }

  update(): void {
    this.tiles.update();
    this.basins.update();
    this.latest.update();
    this.processes.update();
    const state = this.store.state;
    if (!state) return;
    const names = TIERS.filter((name) => state[name]?.name);
    if (names.join() !== this.names) this.buildCharts(names);
    for (const chart of this.drawn) chart.update();
  }

  private buildCharts(names: TierName[]): void {
    this.names = names.join();
    this.drawn = names.map((name, i) => new TierChart(this.store, name, i === 0 ? 196 : 104, () => this.span));
    replace(
      this.charts,
      ...this.drawn.map((chart, i) => h("figure", { class: i === 0 ? "large" : "small" }, h("figcaption", {}, chart.tier), chart.element)),
    );
  }
}
