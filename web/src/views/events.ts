// SPDX-License-Identifier: Apache-2.0
// The log of evictions, removals and changes of level, filtered by text, kind, reason and tier.
import { h, setText } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { TIERS } from "../types";
import { ACTIONS, REASONS } from "../words";
import { EventList, matches } from "./event_list";
import type { View } from "./view";

const MOST = 400;

export class Events implements View {
  readonly element: HTMLElement;
  private readonly list: EventList;
  private readonly count = h("p", { class: "count", role: "status" });
  private readonly text = h("input", { type: "search", id: "event-search", placeholder: "part of a key", maxlength: 200 });
  private readonly kind: HTMLSelectElement;
  private readonly reason: HTMLSelectElement;
  private readonly tier: HTMLSelectElement;

  constructor(private readonly store: Store) {
    this.list = new EventList(store, { most: MOST, brief: false });
    const option = (value: string, text: string): HTMLElement => h("option", { value }, text);
    this.kind = h("select", { id: "event-kind" }, option("", "everything"), option("level", "levels"), ...Object.entries(ACTIONS).map(([id, word]) => option(id, word)), option("erase", "erased by clients"));
    this.reason = h("select", { id: "event-reason" }, option("", "any reason"), ...Object.keys(REASONS).map((id) => option(id, id)));
    this.tier = h("select", { id: "event-tier" }, option("", "all tiers"), ...TIERS.map((id) => option(id, id)));
    const field = (label: string, input: HTMLElement): HTMLElement => h("label", {}, h("span", {}, label), input);
    const form = h("form", { class: "filters", role: "search", "aria-label": "Events" }, field("Key", this.text), field("What", this.kind), field("Why", this.reason), field("Tier", this.tier), this.count);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.apply());
    this.element = h("section", { class: "panel log", "aria-labelledby": "events-title" }, h("header", {}, h("h2", { id: "events-title" }, "Events")), form, this.list.element);
  }

  // Losses only, or whatever the address names: #events?what=destroy.
  ask(query: URLSearchParams): void {
    const what = query.get("what");
    if (what === null) return;
    this.kind.value = what;
    this.text.value = this.reason.value = this.tier.value = "";
    this.apply();
  }

  private apply(): void {
    this.list.filter = { text: this.text.value, kind: this.kind.value, reason: this.reason.value, tier: this.tier.value };
    this.update();
  }

  shown(): void {
    this.update();
  }
  hidden(): void {}

  focusSearch(): void {
    this.text.focus();
  }

  update(): void {
    this.list.update();
    const all = this.store.events.all();
    let fit = 0;
    for (const event of all) fit += matches(event, this.list.filter) ? 1 : 0;
    const passed = this.store.passed > 0 ? `; ${format.count(this.store.passed)} were left out: there were too many` : "";
    setText(this.count, `${format.count(fit)} of the last ${format.count(all.length)} events${passed}`);
  }
}
