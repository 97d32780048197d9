// SPDX-License-Identifier: Apache-2.0
// One context: its facts and history, why it was evicted, what would bring it back, and what can be
// done with it.
import { get, keyQuery, post } from "../api";
import { h, replace } from "../dom";
import * as format from "../format";
import { keyText, wholeText } from "../key";
import type { Store } from "../store";
import type { Context, Explanation, Passage } from "../types";
import { levelName, passageText, reasonText } from "../words";
import { askDrop, askPrefetch } from "./controls";

const ADDRESS_MAX = 4000; // Characters of a key in a URL; longer keys go in a body.

export class ContextPanel {
  readonly element = h("dialog", { class: "context", "aria-labelledby": "context-title" });
  private shown: Context | undefined;

  constructor(
    private readonly store: Store,
    private readonly changed: () => void,
  ) {
    // A click outside closes it.
    this.element.addEventListener("click", (event) => {
      if (event.target === this.element) this.element.close();
    });
  }

  open(row: Context): void {
    this.shown = row;
    this.draw(row, undefined, "");
    if (!this.element.open) this.element.showModal();
    void this.load(row);
  }

  private async load(row: Context): Promise<void> {
    try {
      const long = row.hex !== undefined && row.hex.length > ADDRESS_MAX;
      const told = long ? await post<Explanation>("/api/v1/explain", { hex: row.hex }) : await get<Explanation>(`/api/v1/explain?${keyQuery(row.key, row.hex)}`);
      if (this.shown === row) this.draw(row, told, "");
    } catch (error) {
      if (this.shown === row) this.draw(row, undefined, (error as Error).message);
    }
  }

  private draw(row: Context, told: Explanation | undefined, error: string): void {
    const entry = told?.entry ?? row;
    const fact = (label: string, text: string): HTMLElement => h("div", {}, h("dt", {}, label), h("dd", {}, text));
    const close = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => this.element.close() }, "×");
    const steps = told?.steps === undefined ? "no live run needs it" : told.steps === 0 ? "its step runs" : format.count(told.steps);
    replace(
      this.element,
      h("header", {}, h("h2", { id: "context-title" }, format.shorten(keyText(row), 160)), close),
      told && wholeText(row) === undefined ? h("p", { class: "note" }, `The key has ${format.count(told.key_bytes)} bytes; bytes that are not text are shown escaped.`) : null,
      this.buttons(row, told),
      h(
        "dl",
        { class: "facts wide" },
        fact("Agent", entry.agent || "none"),
        fact("Tokens", format.count(entry.tokens)),
        fact("Size", format.bytes(entry.bytes)),
        fact("Tier", told && !told.found ? "none: it was removed" : entry.tier),
        fact("Clean", entry.backed ? "yes" : "no"),
        fact("Idle", format.duration(entry.idle_s)),
        fact("Uses", format.count(entry.uses)),
        fact("Leases", format.count(entry.leases)),
        fact("Steps until use", steps),
      ),
      h("h3", {}, "History"),
      told ? journey(told.journey, told.found ? entry.tier : "") : h("p", {}, error || "…"),
      h("h3", {}, "Explain"),
      h("pre", { class: "explain", tabindex: 0, "aria-label": "Explain" }, told ? told.explain + (told.graph ? `\nGraph: ${told.graph}` : "") : error || "…"),
    );
  }

  private buttons(row: Context, told: Explanation | undefined): HTMLElement {
    const copied = h("span", { role: "status" });
    const whole = told?.hex ?? row.hex;
    const text = wholeText({ key: row.key, hex: whole });
    const copy = h("button", { type: "button", onclick: () => void copyKey(text ?? whole ?? row.key, text === undefined, copied) }, text === undefined ? "Copy the key, as hex" : "Copy the key");
    const key = { key: keyText(row), hex: whole };
    const again = (): void => {
      this.changed();
      void this.load(row);
    };
    const may = this.store.state?.controls ?? false;
    const why = may ? "" : "This daemon has no password, so nothing can be changed";
    return h(
      "div",
      { class: "buttons left" },
      copy,
      h("button", { type: "button", disabled: !may, title: why, onclick: () => askPrefetch(key) }, "Prefetch …"),
      h("button", { type: "button", class: "danger", disabled: !may, title: why, onclick: () => askDrop(key, again) }, "Drop …"),
      copied,
    );
  }
}

async function copyKey(text: string, hex: boolean, status: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    const bytes = hex ? text.length / 2 : new TextEncoder().encode(text).length;
    status.textContent = `Copied: ${format.count(bytes)} bytes.`;
  } catch {
    status.textContent = "The browser did not allow it.";
  }
}

function journey(passages: readonly Passage[], now: string): HTMLElement {
  const items = [...passages].reverse().map((p) => {
    const why = p.reason ? `${p.reason}: ${reasonText(p.action, p.reason)}` : "";
    const level = p.level ? `level ${levelName(p.level)}${p.pressure ? `, pressure ${format.percent(p.pressure)}` : ""}` : "";
    return h("li", { class: p.action }, h("time", {}, format.clock(p.unix_ms)), h("span", {}, h("b", {}, passageText(p)), why ? ` – ${why}` : "", level ? h("small", {}, level) : null));
  });
  if (now) items.push(h("li", { class: "now" }, h("time", {}, "now"), h("span", {}, h("b", {}, `In ${now}`))));
  if (items.length <= 1 && now) items.unshift(h("li", {}, h("time", {}, ""), h("span", {}, "No copy was made or removed since it was set.")));
  return h("ol", { class: "journey" }, ...items);
}
