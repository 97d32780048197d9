// The figures one asks for first. Each is made of what /metrics says, too.
import { h, setNumber, setText } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import type { State } from "../types";

const BOUNDS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5];

interface Shown {
  value: number;
  text: string;
  note: string;
}
interface Tile {
  title: string;
  id: string;
  help: string;
  show(state: State, store: Store): Shown;
}

// The bound under which so large a share of give-backs stayed.
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

// What was destroyed though nobody wanted it gone.
export function destroyed(state: State): number {
  const wanted = (state.left_by_reason.erased ?? 0) + (state.left_by_reason.replaced ?? 0) + (state.left_by_reason.cleared ?? 0);
  return Math.max(0, state.left_by_action.destroy - wanted);
}

const TILES: Tile[] = [
  {
    title: "Contexts",
    id: "entries",
    help: "Entries that can be found, in whichever tier",
    show: (s) => ({ value: s.entries, text: format.count(s.entries), note: `${format.short(s.tokens)} tokens, ${format.count(s.leases)} leased` }),
  },
  {
    title: "Backed",
    id: "backed",
    help: "Share of the top tier's bytes with a verified copy below: they can leave at once",
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
    help: "Tokens of the contexts handed out, times what computing one anew costs (declared by clients; else an 8B model on an H200)",
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
    help: "From a request for memory until the last of it was free",
    show: (s) => {
      const { count, last_s, within } = s.give_back;
      if (count === 0) return { value: 0, text: "–", note: "nobody has asked yet" };
      const most = quantile(within, 0.99);
      const bound = most === undefined || most === Infinity ? "" : `99 % within ${most < 1 ? `${most * 1000} ms` : `${most} s`}, `;
      return { value: last_s, text: format.duration(last_s), note: `${bound}${format.count(count)} ${count === 1 ? "ask" : "asks"}` };
    },
  },
  {
    title: "Destroyed",
    id: "destroyed",
    help: "Last copies that went for memory; not what clients erased or set anew",
    show: (s) => ({ value: destroyed(s), text: format.count(destroyed(s)), note: s.refused_blocked > 0 ? `${format.count(s.refused_blocked)} sets refused` : "no set was refused" }),
  },
];

export class Tiles {
  readonly element = h("dl", { class: "tiles" });
  private readonly shown = TILES.map((tile) => {
    const value = h("span", { class: "figure", id: `tile-${tile.id}` });
    const note = h("span", { class: "note", id: `tile-${tile.id}-note` });
    this.element.append(
      h("div", { class: "tile", title: tile.help }, h("dt", {}, tile.title), h("dd", {}, value, note)),
    );
    return { tile, value, note };
  });

  constructor(private readonly store: Store) {}

  update(): void {
    const state = this.store.state;
    if (!state) return;
    for (const { tile, value, note } of this.shown) {
      const shown = tile.show(state, this.store);
      setNumber(value, shown.value, shown.text);
      setText(note, shown.note);
    }
  }
}
