// SPDX-License-Identifier: Apache-2.0
// The table of contexts. The daemon searches, sorts and pages. Of a hundred thousand rows only the
// visible ones are on the page.
import { h, setAttr, setText } from "../dom";
import * as format from "../format";
import { keyText } from "../key";
import type { Store } from "../store";
import type { Context } from "../types";
import { ContextPanel } from "./context_panel";
import { Pages } from "./pages";
import type { View } from "./view";

const ROW = 34; // Pixels, as in the style sheet.
const AROUND = 6; // Rows drawn outside the visible part.
const AGAIN_MS = 2000;
const TYPED_MS = 150;

interface Column {
  id: string;
  title: string;
  sort?: string;
  number?: boolean;
  text(row: Context): string;
}
const COLUMNS: Column[] = [
  { id: "key", title: "Key", sort: "key", text: (row) => format.shorten(keyText(row), 72) },
  { id: "agent", title: "Agent", sort: "agent", text: (row) => format.shorten(row.agent, 28) },
  { id: "tokens", title: "Tokens", sort: "tokens", number: true, text: (row) => format.count(row.tokens) },
  { id: "bytes", title: "Size", sort: "bytes", number: true, text: (row) => format.bytes(row.bytes) },
  { id: "tier", title: "Tier", sort: "tier", text: (row) => row.tier },
  { id: "backed", title: "Clean", text: (row) => (row.backed ? "yes" : "no") },
  { id: "idle", title: "Idle", sort: "idle", number: true, text: (row) => format.duration(Math.max(0, Math.floor(row.idle_s))) },
  { id: "uses", title: "Uses", sort: "uses", number: true, text: (row) => format.count(row.uses) },
  { id: "leases", title: "Leases", sort: "leases", number: true, text: (row) => (row.leases > 0 ? format.count(row.leases) : "") },
  { id: "steps", title: "Steps until use", sort: "steps", number: true, text: (row) => (row.steps === undefined ? "" : row.steps === 0 ? "runs" : format.count(row.steps)) },
];

interface Line {
  element: HTMLElement;
  cells: HTMLElement[];
}

export class Contexts implements View {
  readonly element: HTMLElement;
  private readonly search = h("input", { type: "search", id: "context-search", placeholder: "part of a key or agent", maxlength: 400, autocomplete: "off", spellcheck: "false" });
  private readonly count = h("p", { class: "count", role: "status" });
  private readonly scroller: HTMLElement;
  private readonly sheet = h("div", { class: "sheet", role: "rowgroup" });
  private readonly heads = new Map<string, HTMLElement>();
  private readonly lines: Line[] = [];
  private readonly pages = new Pages(() => this.draw());
  private readonly panel: ContextPanel;
  private sort = "idle";
  private desc = false;
  private active = 0;
  private timer = 0;
  private typing = 0;

  constructor(store: Store) {
    this.panel = new ContextPanel(store, () => this.refresh());
    const head = h("div", { class: "table-row head", role: "row", "aria-rowindex": 1 }, ...COLUMNS.map((column) => this.head(column)));
    this.scroller = h("div", { class: "scroller", tabindex: 0, role: "grid", "aria-label": "Contexts", id: "contexts-grid" }, h("div", { role: "rowgroup", class: "heads" }, head), this.sheet);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    const form = h("form", { class: "filters", role: "search", "aria-label": "Contexts" }, h("label", {}, h("span", {}, "Search"), this.search), this.count);
    form.addEventListener("submit", (event) => event.preventDefault());
    this.search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = window.setTimeout(() => this.ask(), TYPED_MS);
    });
    this.element = h("section", { class: "panel contexts", "aria-labelledby": "contexts-title" }, h("header", {}, h("h2", { id: "contexts-title" }, "Contexts")), form, this.scroller, this.panel.element);
  }

  private head(column: Column): HTMLElement {
    const cell = h("div", { class: `cell ${column.id}${column.number ? " number" : ""}`, role: "columnheader" });
    if (!column.sort) {
      cell.textContent = column.title;
      return cell;
    }
    const sort = column.sort;
    cell.append(h("button", { type: "button", tabindex: 0, onclick: () => this.sortBy(sort) }, column.title));
    this.heads.set(sort, cell);
    return cell;
  }

  private sortBy(sort: string): void {
    this.desc = this.sort === sort ? !this.desc : sort !== "key" && sort !== "agent" && sort !== "tier" && sort !== "steps";
    this.sort = sort;
    this.ask();
  }

  private ask(): void {
    for (const [sort, cell] of this.heads) {
      setAttr(cell, "aria-sort", sort === this.sort ? (this.desc ? "descending" : "ascending") : null);
    }
    clearTimeout(this.typing); // What is typed is in this query.
    this.active = 0;
    this.scroller.scrollTop = 0;
    this.pages.setQuery({ search: this.search.value, sort: this.sort, desc: this.desc });
    this.pages.want(0, 0);
  }

  shown(): void {
    this.ask();
    this.timer = window.setInterval(() => this.refresh(), AGAIN_MS);
  }

  hidden(): void {
    clearInterval(this.timer);
    clearTimeout(this.typing);
    this.pages.cancel();
  }

  update(): void {}

  focusSearch(): void {
    this.search.focus();
  }

  private range(): { first: number; last: number } {
    const top = Math.max(0, this.scroller.scrollTop);
    const first = Math.max(0, Math.floor(top / ROW) - AROUND);
    const last = Math.floor((top + this.scroller.clientHeight) / ROW) + AROUND;
    return { first, last: Math.max(first, Math.min(last, this.pages.matching - 1)) };
  }

  private refresh(): void {
    if (document.hidden) return;
    const { first, last } = this.range();
    this.pages.want(first, last, true);
  }

  private draw(): void {
    const { first, last } = this.range();
    this.sheet.style.height = `${this.pages.matching * ROW}px`;
    setAttr(this.scroller, "aria-rowcount", String(this.pages.matching + 1));
    const found = `${format.count(this.pages.matching)} of ${format.count(this.pages.total)} contexts`;
    setText(this.count, this.pages.error ? `They could not be read: ${this.pages.error}` : found);
    this.pages.want(first, last);
    const shown = this.pages.matching === 0 ? 0 : last - first + 1;
    while (this.lines.length < shown) this.lines.push(this.line());
    this.lines.forEach((line, i) => {
      line.element.hidden = i >= shown;
      if (i < shown) this.fill(line, first + i);
    });
    const lit = this.lines.find((line) => !line.element.hidden && line.element.dataset.index === String(this.active));
    setAttr(this.scroller, "aria-activedescendant", lit ? lit.element.id : null);
  }

  private line(): Line {
    const cells = COLUMNS.map((column) => h("div", { class: `cell ${column.id}${column.number ? " number" : ""}`, role: "gridcell" }));
    const element = h("div", { class: "table-row", role: "row", id: `row-${this.lines.length}` }, ...cells);
    element.addEventListener("click", () => this.open(Number(element.dataset.index)));
    this.sheet.append(element);
    return { element, cells };
  }

  private fill(line: Line, index: number): void {
    const row = this.pages.row(index);
    line.element.style.transform = `translateY(${index * ROW}px)`;
    line.element.dataset.index = String(index);
    setAttr(line.element, "aria-rowindex", String(index + 2));
    line.element.classList.toggle("active", index === this.active);
    line.element.classList.toggle("waiting", row === undefined);
    COLUMNS.forEach((column, i) => setText(line.cells[i]!, row ? column.text(row) : i === 0 ? "…" : ""));
    setAttr(line.cells[4]!, "data-tier", row?.tier ?? null);
    setAttr(line.cells[5]!, "data-backed", row ? String(row.backed) : null);
  }

  private open(index: number): void {
    const row = this.pages.row(index);
    this.active = index;
    this.draw();
    if (row) this.panel.open(row);
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.scroller) return;
    const page = Math.max(1, Math.floor((this.scroller.clientHeight - ROW) / ROW) - 1);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const move = moves[event.key];
    if (event.key === "Enter") {
      event.preventDefault(); // Otherwise the opened panel would get the key, too.
      this.open(this.active);
    }
    if (move === undefined) return;
    event.preventDefault();
    this.active = Math.min(Math.max(0, this.active + move), Math.max(0, this.pages.matching - 1));
    const top = this.active * ROW;
    const height = this.scroller.clientHeight - 2 * ROW; // Minus the header.
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    if (top > this.scroller.scrollTop + height) this.scroller.scrollTop = top - height;
    this.draw();
  }
}
