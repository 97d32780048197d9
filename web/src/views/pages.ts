// SPDX-License-Identifier: Apache-2.0
// The contexts from the daemon, by pages. Pages near the visible rows are kept, requested once, and
// refreshed from time to time.
import { get } from "../api";
import type { Context, Page } from "../types";

export const PAGE = 100;
const KEPT = 12;

export interface Query {
  search: string;
  sort: string;
  desc: boolean;
}

export class Pages {
  matching = 0;
  total = 0;
  error = "";
  private readonly pages = new Map<number, Context[]>();
  private readonly asked = new Map<number, AbortController>();
  private query: Query = { search: "", sort: "idle", desc: false };

  constructor(private readonly changed: () => void) {}

  setQuery(query: Query): void {
    this.query = query;
    this.cancel();
    this.pages.clear();
  }

  row(index: number): Context | undefined {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  // Rows from `first` to `last` are visible. `again`: refreshes those that are loaded already.
  want(first: number, last: number, again = false): void {
    const from = Math.max(0, Math.floor(first / PAGE));
    const to = Math.max(from, Math.floor(Math.max(first, last) / PAGE));
    for (const [page, abort] of this.asked) {
      if (page < from - 1 || page > to + 1) {
        abort.abort();
        this.asked.delete(page);
      }
    }
    for (let page = from; page <= to; page++) {
      if (!this.asked.has(page) && (again || !this.pages.has(page))) void this.load(page);
    }
    // Least recently visible first.
    for (const page of this.pages.keys()) {
      if (this.pages.size <= KEPT) break;
      if (page < from || page > to) this.pages.delete(page);
    }
  }

  cancel(): void {
    for (const abort of this.asked.values()) abort.abort();
    this.asked.clear();
  }

  private async load(page: number): Promise<void> {
    const abort = new AbortController();
    this.asked.set(page, abort);
    const { search, sort, desc } = this.query;
    const query = new URLSearchParams({ search, sort, desc: desc ? "1" : "0", offset: String(page * PAGE), limit: String(PAGE) });
    try {
      const answer = await get<Page>(`/api/v1/contexts?${query}`, abort.signal);
      if (abort.signal.aborted) return;
      this.matching = answer.matching;
      this.total = answer.total;
      this.error = "";
      this.pages.delete(page);
      this.pages.set(page, answer.contexts);
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = (error as Error).message;
    } finally {
      if (this.asked.get(page) === abort) this.asked.delete(page);
    }
    this.changed();
  }
}
