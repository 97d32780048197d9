// SPDX-License-Identifier: Apache-2.0
// Tiers as basins: how full each is and with which memory, what flows between them, and what was
// destroyed in each.
import { h, setAttr, setNumber, setText } from "../dom";
import * as format from "../format";
import { type Store, partsOf } from "../store";
import { type Tier, TIERS, type TierName } from "../types";
import { levelName } from "../words";

const TITLES: Record<TierName, string> = { device: "Device", host: "Host RAM", disk: "Disk" };
const PARTS = ["reserve", "free", "backed", "unbacked", "others"] as const;

class Basin {
  readonly element: HTMLElement;
  private readonly level = h("span", { class: "level" });
  private readonly layers = PARTS.map((part) => h("div", { class: `layer part ${part}` }));
  private readonly lines: Record<string, HTMLElement> = {};

  constructor(
    private readonly store: Store,
    private readonly name: TierName,
  ) {
    const line = (id: string, label: string): HTMLElement => {
      const value = h("dd", { id: `basin-${name}-${id}` });
      this.lines[id] = value;
      return h("div", {}, h("dt", {}, label), value);
    };
    const title = h("h3", {}, TITLES[name], this.level);
    const glass = h("div", { class: "glass", "aria-hidden": true }, ...this.layers);
    const facts = h(
      "dl",
      { class: "facts" },
      line("bytes", "cached"),
      line("entries", "contexts"),
      line("free", "free"),
      line("others", "other processes"),
    );
    const leaving = h(
      "dl",
      { class: "facts leaving" },
      line("drop", "dropped"),
      line("demote", "demoted"),
      line("expire", "expired"),
      line("destroy", "destroyed or erased"),
    );
    this.element = h("section", { class: "basin", "aria-label": TITLES[name] }, title, h("div", { class: "body" }, glass, facts, leaving));
  }

  update(tier: Tier): void {
    setText(this.level, levelName(tier.level));
    setAttr(this.level, "data-level", tier.level);
    const parts = partsOf(tier);
    const sum = Math.max(1, tier.total);
    const share: Record<string, number> = { ...parts, free: parts.free - parts.reserve };
    PARTS.forEach((part, i) => {
      this.layers[i]!.style.flexGrow = String(Math.max(0, share[part]! / sum));
    });
    setNumber(this.lines.bytes!, tier.bytes, format.bytes(tier.bytes));
    setNumber(this.lines.entries!, tier.entries, format.count(tier.entries));
    setNumber(this.lines.free!, tier.free, format.bytes(tier.free));
    setNumber(this.lines.others!, tier.others, format.bytes(tier.others));
    for (const action of ["drop", "demote", "expire", "destroy"] as const) {
      const all = tier.left_by_action[action];
      const lately = this.store.done(this.name, action);
      setNumber(this.lines[action]!, all, `${format.count(all)}${lately > 0 ? ` (+${format.count(lately)})` : ""}`);
      this.lines[action]!.classList.toggle("hot", lately > 0);
    }
  }
}

class Flow {
  readonly element: HTMLElement;
  private readonly down: HTMLElement;
  private readonly up: HTMLElement;
  private readonly downTotal: HTMLElement;
  private readonly upTotal: HTMLElement;

  constructor(
    private readonly store: Store,
    private readonly upper: TierName,
    private readonly lower: TierName,
  ) {
    this.down = h("strong", {});
    this.up = h("strong", {});
    this.downTotal = h("span", { class: "total", id: `flow-${lower}-down` });
    this.upTotal = h("span", { class: "total", id: `flow-${upper}-up` });
    const label = `Between ${TITLES[upper]} and ${TITLES[lower]}`;
    this.element = h(
      "section",
      { class: "flow", "aria-label": label },
      h("div", { class: "way down" }, h("span", { class: "arrow", "aria-hidden": true }, "→"), h("span", { class: "what" }, "down"), this.down, this.downTotal),
      h("div", { class: "way up" }, h("span", { class: "arrow", "aria-hidden": true }, "←"), h("span", { class: "what" }, "up"), this.up, this.upTotal),
    );
  }

  update(upper: Tier, lower: Tier): void {
    this.show(this.down, this.downTotal, this.store.flow(this.lower, "down"), lower.copied_down);
    this.show(this.up, this.upTotal, this.store.flow(this.upper, "up"), upper.copied_up);
  }

  private show(now: HTMLElement, total: HTMLElement, rate: number, all: number): void {
    setText(now, rate > 0 ? format.rate(rate) : "still");
    setNumber(total, all, `${format.bytes(all)} in all`);
    now.parentElement!.classList.toggle("flowing", rate > 0);
  }
}

export class Basins {
  readonly element = h("div", { class: "basins" });
  private names = "";
  private basins: { name: TierName; basin: Basin }[] = [];
  private flows: { upper: TierName; lower: TierName; flow: Flow }[] = [];

  constructor(private readonly store: Store) {}

  update(): void {
    const state = this.store.state;
    if (!state) return;
    const names = TIERS.filter((name) => state[name]?.name);
    if (names.join() !== this.names) this.build(names);
    for (const { name, basin } of this.basins) basin.update(state[name]!);
    for (const { upper, lower, flow } of this.flows) flow.update(state[upper]!, state[lower]!);
  }

  private build(names: TierName[]): void {
    this.names = names.join();
    this.basins = names.map((name) => ({ name, basin: new Basin(this.store, name) }));
    this.flows = names.slice(1).map((lower, i) => {
      const upper = names[i]!;
      return { upper, lower, flow: new Flow(this.store, upper, lower) };
    });
    const children: HTMLElement[] = [];
    this.basins.forEach(({ basin }, i) => {
      if (i > 0) children.push(this.flows[i - 1]!.flow.element);
      children.push(basin.element);
    });
    this.element.replaceChildren(...children);
    this.element.style.setProperty("--tiers", String(names.length));
  }
}
