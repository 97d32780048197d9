// SPDX-License-Identifier: Apache-2.0
// Commands to the daemon. Each asks for confirmation and shows the result.
import { post } from "../api";
import { h, setText } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { confirm } from "./dialogs";
import type { View } from "./view";

export interface Key {
  key: string;
  hex?: string | undefined;
}

export function askPrefetch(key: Key): void {
  confirm({
    title: "Prefetch this context?",
    text: "It is copied into free memory of the device; nothing is evicted for it.",
    detail: format.shorten(key.key, 120),
    yes: "Prefetch",
    act: async () => {
      const body = key.hex === undefined ? { keys: [key.key] } : { hex: [key.hex] };
      const { coming } = await post<{ coming: number }>("/api/v1/prefetch", body);
      return coming > 0 ? "It is present, or being copied." : "It cannot be prefetched: it is missing, or there is no free memory for it.";
    },
  });
}

export function askDrop(key: Key, then?: () => void): void {
  confirm({
    title: "Drop this context?",
    text: "All its copies are removed, in every tier. Only the client that set it can bring it back.",
    detail: format.shorten(key.key, 120),
    yes: "Drop it",
    danger: true,
    act: async () => {
      const body = key.hex === undefined ? { key: key.key } : { hex: key.hex };
      const { dropped } = await post<{ dropped: boolean }>("/api/v1/drop", body);
      then?.();
      return dropped ? "It was erased." : "It was no longer present.";
    },
  });
}

export class Controls implements View {
  readonly element: HTMLElement;
  private readonly note = h("p", { class: "note", role: "status" });
  private readonly size = h("input", { type: "number", id: "reclaim-size", min: "0.001", step: "any", value: "1", required: true });
  private readonly unit = h("select", { id: "reclaim-unit", "aria-label": "Unit" }, h("option", {}, "GiB"), h("option", {}, "MiB"));
  private readonly within = h("input", { type: "number", id: "reclaim-within", min: "0.1", max: "10", step: "any", value: "5", required: true });
  private readonly key = h("input", { type: "text", id: "control-key", required: true, autocomplete: "off", spellcheck: "false" });
  private readonly fields: HTMLFieldSetElement[] = [];

  constructor(private readonly store: Store) {
    this.element = h("div", { class: "controls" }, this.note, this.reclaimPanel(), this.keyPanel());
  }

  private reclaimPanel(): HTMLElement {
    const fields = h(
      "fieldset",
      {},
      h("legend", {}, "Give memory back"),
      h("p", {}, "Evicts clean contexts at once, then copies dirty ones down and evicts them, until the time has passed. Destroys nothing and keeps leased contexts."),
      h("div", { class: "row" }, h("label", { for: "reclaim-size" }, "Amount"), this.size, this.unit, h("label", { for: "reclaim-within" }, "within seconds"), this.within, h("button", { type: "submit", class: "primary" }, "Reclaim …")),
    );
    return this.form(fields, () => this.askReclaim());
  }

  private keyPanel(): HTMLElement {
    const drop = h("button", { type: "button", class: "danger", id: "control-drop" }, "Drop …");
    const fields = h(
      "fieldset",
      {},
      h("legend", {}, "One context"),
      h("p", {}, "By its complete key. The table of contexts offers the same."),
      h("div", { class: "row" }, h("label", { for: "control-key" }, "Key"), this.key, h("button", { type: "submit", class: "primary" }, "Prefetch …"), drop),
    );
    const form = this.form(fields, () => askPrefetch({ key: this.key.value }));
    drop.addEventListener("click", () => {
      if (form.reportValidity()) askDrop({ key: this.key.value });
    });
    return form;
  }

  private form(fields: HTMLFieldSetElement, act: () => void): HTMLFormElement {
    this.fields.push(fields);
    const form = h("form", { class: "panel" }, fields);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      act();
    });
    return form;
  }

  private askReclaim(): void {
    const amount = `${this.size.value}${this.unit.value}`;
    const bytes = Math.round(Number(this.size.value) * (this.unit.value === "GiB" ? 2 ** 30 : 2 ** 20));
    const within = `${Math.round(Number(this.within.value) * 1000)}ms`;
    confirm({
      title: `Give ${amount} of the top tier back?`,
      text: "Dirty contexts are copied to a lower tier first; they stay readable, more slowly.",
      yes: "Reclaim",
      act: async () => {
        const { freed, why_not_more } = await post<{ freed: number; why_not_more: string }>("/api/v1/reclaim", { bytes, within });
        return `${format.bytes(freed)} given back${why_not_more ? `; not more, since ${why_not_more}` : ""}.`;
      },
    });
  }

  shown(): void {
    this.update();
  }
  hidden(): void {}

  update(): void {
    const state = this.store.state;
    const may = state?.controls ?? false;
    for (const fields of this.fields) fields.disabled = !may;
    if (!state) return; // Why not is not known yet.
    setText(this.note, may ? "Each asks for confirmation and shows its result." : "Nothing can be changed here: this daemon has no password. Set one (password, or password_file) to allow changes.");
  }
}
