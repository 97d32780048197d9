// SPDX-License-Identifier: Apache-2.0
// The most important figures. Each could be computed from /metrics, too.
import { h, setAttr, setNumber, setText } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import type { State } from "../types";

const BOUNDS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5];

interface Shown {
  value: number;
  text: string;
  note: string;
  link?: string; // Of a loss: to its events.
}
interface Tile {
  title: string;
  id: string;
  help: string;
  show(state: State, store: Store): Shown;
}

// The bound below which that share of give-backs stayed.
export function quantile(within: readonly number[], share: number): number | undefined {
  const all = within.reduce((sum, n) => sum + n, 0);
  if (all === 0) return undefined;
  let seen = 0;
  for (let i = 0; i < within.length; i++) {
    seen += within[i]!;
    if (seen >= share * all) return BOUNDS_S[i] ?? Infinity;
  }
  return Infinity;
}

// Last copies destroyed although no client asked for it.
export function destroyed(state: State): number {
  return Object.values(state.destroyed_by_reason ?? {}).reduce((sum, n) => sum + n, 0);
}

// By clients: erased, replaced or cleared.
const erased = (state: State): number => ["erased", "replaced", "cleared"].reduce((sum, why) => sum + (state.left_by_reason[why] ?? 0), 0);

const within = (seconds: number | undefined): string => (seconds === Infinity ? "over 5 s" : seconds === undefined ? "–" : format.duration(seconds));

const TILES: Tile[] = [
  {
    title: "Contexts",
    id: "entries",
    help: "Live entries, in any tier",
    show: (s) => ({ value: s.entries, text: format.count(s.entries), note: `${format.short(s.tokens)} tokens, ${format.count(s.leases)} leased` }),
  },
  {
    title: "Clean",
    id: "clean",
    help: "Share of the top tier's bytes that are clean: a lower tier has a verified copy, so they can be evicted at once",
    show: (s) => {
      const top = s.device ?? s.host;
      const ratio = top && top.bytes > 0 ? top.backed / top.bytes : 0;
      const bytes = top ? `${format.bytes(top.backed)} of ${format.bytes(top.bytes)}` : "";
      return { value: ratio, text: top && top.bytes > 0 ? format.percent(ratio, 0) : "–", note: s.host || s.disk ? bytes : "there is no tier below" };
    },
  },
  {
    title: "Hit ratio",
    id: "hits",
    help: "Gets that found their entry, of all gets",
    show: (s, store) => {
      const all = s.hits + s.misses;
      const ratio = all > 0 ? s.hits / all : 0;
      const lately = store.hitRatio(60);
      const note = lately === undefined ? "no gets in the last minute" : `${format.percent(lately)} in the last minute`;
      return { value: ratio, text: all > 0 ? format.percent(ratio) : "–", note };
    },
  },
  {
    title: "Prefill saved",
    id: "saved",
    help: "Tokens of the contexts returned, times the cost of computing one again (declared by clients; else an 8B model on an H200)",
    show: (s) => {
      const tokens = s.hit_tokens ?? 0;
      const seconds = tokens * s.prefill_s;
      const each = format.duration(s.prefill_s);
      return { value: seconds, text: format.duration(seconds), note: `${format.short(tokens)} × ${each}, declared` };
    },
  },
  {
    title: "Give-back",
    id: "giveback",
    help: "From a request for memory until its last byte was free",
    show: (s) => {
      const { count, last_s, within } = s.give_back;
      if (count === 0) return { value: 0, text: "–", note: "no request yet" };
      const most = quantile(within, 0.99);
      const bound = most === undefined || most === Infinity ? "" : `99 % within ${most < 1 ? `${most * 1000} ms` : `${most} s`}, `;
      return { value: last_s, text: format.duration(last_s), note: `${bound}${format.count(count)} ${count === 1 ? "ask" : "asks"}` };
    },
  },
  {
    title: "Reads",
    id: "reads",
    help: "Gets a second over the last ten, and the time from a read's start to its reply in the last minute",
    show: (_, store) => {
      const rate = store.getRate();
      const p50 = store.readTime(0.5);
      const times = `p50 ${within(p50)}, p99 ${within(store.readTime(0.99))}`;
      return { value: rate, text: `${format.short(rate)}/s`, note: p50 === undefined ? "no read in the last minute" : times };
    },
  },
  {
    title: "Refused",
    id: "refused",
    help: "Sets that no tier accepted, because of pressure",
    show: (s) => ({ value: s.refused_blocked, text: format.count(s.refused_blocked), note: s.blocked ? "sets are refused now" : "sets are accepted" }),
  },
  {
    title: "Destroyed",
    id: "destroyed",
    help: "Last copies destroyed though nothing erased them and they had not expired",
    show: (s) => ({ value: destroyed(s), text: format.count(destroyed(s)), note: `erased by clients: ${format.count(erased(s))}`, link: destroyed(s) > 0 ? "#events?what=destroy" : "" }),
  },
];

export class Tiles {
  readonly element = h("dl", { class: "tiles" });
  private readonly shown = TILES.map((tile) => {
    const value = h("span", { class: "figure", id: `tile-${tile.id}` });
    const note = h("span", { class: "note", id: `tile-${tile.id}-note` });
    const link = h("a", { class: "loss", id: `tile-${tile.id}-link`, hidden: true }, "see the events");
    const box = h("div", { class: "tile", title: tile.help }, h("dt", {}, tile.title), h("dd", {}, value, note, link));
    this.element.append(box);
    return { tile, value, note, link, box };
  });

  constructor(private readonly store: Store) {}

  update(): void {
    const state = this.store.state;
    if (!state) return;
    for (const { tile, value, note, link, box } of this.shown) {
      const shown = tile.show(state, this.store);
      setNumber(value, shown.value, shown.text);
      setText(note, shown.note);
      link.hidden = !shown.link;
      if (shown.link) setAttr(link, "href", shown.link);
      box.classList.toggle("lossy", Boolean(shown.link));
    }
  }
}
