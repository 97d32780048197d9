// SPDX-License-Identifier: Apache-2.0
// The processes on the card, where the daemon can tell: name, pid and memory, the largest first.
import { h, replace } from "../dom";
import * as format from "../format";
import type { Store } from "../store";

export class Processes {
  readonly element: HTMLElement;
  private readonly rows = h("tbody", {});
  private seen = "";

  constructor(private readonly store: Store) {
    const head = ["process", "pid", "memory of the card"].map((text) => h("th", { scope: "col" }, text));
    const table = h("table", { class: "processes" }, h("thead", {}, h("tr", {}, ...head)), this.rows);
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": "processes-title", hidden: true },
      h("header", {}, h("h2", { id: "processes-title" }, "Processes on the card")),
      table,
    );
  }

  update(): void {
    const processes = this.store.state?.processes ?? [];
    const seen = JSON.stringify(processes);
    if (seen === this.seen) return;
    this.seen = seen;
    this.element.hidden = processes.length === 0;
    replace(
      this.rows,
      ...processes.map((each) =>
        h(
          "tr",
          { "data-pid": each.pid, class: each.own ? "own" : "" },
          h("td", { class: "name" }, `${each.name || "unknown"}${each.own ? " (this daemon)" : ""}`),
          h("td", {}, String(each.pid)),
          h("td", {}, format.bytes(each.bytes)),
        ),
      ),
    );
  }
}
