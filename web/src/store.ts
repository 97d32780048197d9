// SPDX-License-Identifier: Apache-2.0
// What the page knows: the present state, the history of the tiers, the events. Views read it; only
// the stream writes it. All of it is bounded.
import { get } from "./api";
import { Last, Ring } from "./ring";
import { type Event, type History, LEVELS, type State, type Tier, TIERS, type TierName } from "./types";

// Columns of a tier's series.
export const COLUMN = {
  time: 0, // Unix seconds.
  pressure: 1, // NaN: unknown.
  level: 2,
  others: 3,
  unbacked: 4,
  backed: 5,
  free: 6,
  reserve: 7, // Part of `free`.
} as const;
const WIDTH = 8;

// Columns of counters, from which rates are computed.
const COUNTED = ["hits", "misses"] as const;
const READS = 15; // Buckets of the time that reads took.
const TIER_COUNTED = 7; // Bytes down, bytes up, and five actions.
const ACTIONS = ["back", "drop", "demote", "destroy", "expire"] as const;

const FINE_KEPT = 1200; // Two minutes at 10 Hz.
const FINE_MS = 120_000;
const COARSE_KEPT = 3600; // An hour at 1 Hz.
const EVENTS_KEPT = 2000;

export interface Connection {
  since: number; // Local milliseconds.
  state: "connecting" | "live" | "lost" | "locked";
  why: string;
}

export interface Series {
  fine: Ring;
  coarse: Ring;
}

export class Store {
  state: State | undefined;
  connection: Connection = { since: Date.now(), state: "connecting", why: "" };
  readonly events = new Last<Event>(EVENTS_KEPT);
  passed = 0;
  eventsVersion = 0;
  // The version of the first daemon seen, which this page belongs to.
  firstVersion: string | undefined;
  readonly series = new Map<TierName, Series>();
  // Counters over the last minute, four times a second.
  private readonly counted = new Ring(1 + COUNTED.length + 3 * TIER_COUNTED + READS, 300);
  // True: the history was loaded, or cannot be. From then on samples are appended.
  pastKnown = false;
  // The daemon's clock minus ours, in milliseconds.
  skew = 0;
  private readonly listeners = new Set<() => void>();
  private scheduled = false;
  private lastCoarse = 0;
  private lastCounted = 0;

  now(): number {
    return Date.now() + this.skew;
  }

  onChange(listener: () => void): void {
    this.listeners.add(listener);
  }

  changed(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      for (const listener of this.listeners) listener();
    });
  }

  setState(state: State): void {
    if (this.state === undefined || state.unix_ms !== this.state.unix_ms) {
      this.skew = state.unix_ms - Date.now();
    }
    this.firstVersion ??= state.version;
    this.state = state;
    this.changed();
  }

  addEvent(event: Event): void {
    this.events.push(event);
    this.eventsVersion++;
    this.changed();
  }

  setConnection(state: Connection["state"], why = ""): void {
    if (this.connection.state === state && this.connection.why === why) return;
    const since = this.connection.state === state ? this.connection.since : Date.now();
    this.connection = { since, state, why };
    this.changed();
  }

  // Another daemon, or the same one restarted: its counters cannot be compared.
  forgetCounts(): void {
    this.counted.clear();
  }

  // Ten times a second, whether anything changed or not.
  sample(): void {
    if (!this.state || this.connection.state !== "live" || !this.pastKnown) return;
    const now = this.now() / 1000;
    const coarse = now - this.lastCoarse >= 1;
    if (coarse) this.lastCoarse = now;
    for (const name of TIERS) {
      const tier = this.state[name];
      if (!tier) continue;
      const series = this.seriesOf(name);
      const row = rowOf(tier, now);
      series.fine.push(row);
      if (coarse) series.coarse.push(row);
    }
    if (now - this.lastCounted < 0.2) return;
    this.lastCounted = now;
    this.counted.push(this.countedRow(now));
  }

  private countedRow(now: number): number[] {
    const state = this.state!;
    const row = [now, state.hits, state.misses];
    for (const name of TIERS) {
      const tier = state[name];
      row.push(tier?.copied_down ?? 0, tier?.copied_up ?? 0);
      for (const action of ACTIONS) row.push(tier?.left_by_action[action] ?? 0);
    }
    for (let i = 0; i < READS; i++) row.push(state.reads?.within[i] ?? 0);
    return row;
  }

  seriesOf(name: TierName): Series {
    let series = this.series.get(name);
    if (!series) {
      series = { fine: new Ring(WIDTH, FINE_KEPT), coarse: new Ring(WIDTH, COARSE_KEPT) };
      this.series.set(name, series);
    }
    return series;
  }

  // How much a counter rose within the last `seconds`, and the time that really covers.
  private rise(column: number, seconds: number): { by: number; over: number } {
    const ring = this.counted;
    if (ring.length < 2) return { by: 0, over: 1 };
    const from = ring.at(0, 0) - seconds;
    let back = 1;
    while (back < ring.length - 1 && ring.at(0, back) > from) back++;
    const by = Math.max(0, ring.at(column, 0) - ring.at(column, back));
    return { by, over: Math.max(0.1, ring.at(0, 0) - ring.at(0, back)) };
  }

  hitRatio(seconds: number): number | undefined {
    const hits = this.rise(1, seconds).by;
    const all = hits + this.rise(2, seconds).by;
    return all > 0 ? hits / all : undefined;
  }

  // Gets a second.
  getRate(seconds = 10): number {
    const hits = this.rise(1, seconds);
    return (hits.by + this.rise(2, seconds).by) / hits.over;
  }

  // Seconds within which that share of the reads of the last while were answered: the upper bound of
  // a bucket, Infinity beyond the last one. Undefined: there was no read.
  readTime(share: number, seconds = 60): number | undefined {
    const bounds = this.state?.reads?.bounds_s ?? [];
    const counts = Array.from({ length: READS }, (_, i) => this.rise(READS_BASE + i, seconds).by);
    const all = counts.reduce((sum, n) => sum + n, 0);
    if (all === 0) return undefined;
    let seen = 0;
    for (let i = 0; i < counts.length; i++) {
      seen += counts[i]!;
      if (seen >= share * all) return bounds[i] ?? Infinity;
    }
    return Infinity;
  }

  // Bytes per second copied into a tier.
  flow(tier: TierName, direction: "down" | "up", seconds = 2): number {
    const { by, over } = this.rise(base(tier) + (direction === "down" ? 0 : 1), seconds);
    return by / over;
  }

  done(tier: TierName, action: (typeof ACTIONS)[number], seconds = 60): number {
    return this.rise(base(tier) + 2 + ACTIONS.indexOf(action), seconds).by;
  }

  // The hour before this page was opened, or the time while it was hidden.
  async loadHistory(): Promise<void> {
    const history = await get<History>("/api/v1/history?points=1800");
    for (const name of TIERS) {
      const columns = history.tiers[name];
      if (!columns) continue;
      const { coarse, fine } = this.seriesOf(name);
      const seed = fine.length === 0;
      const recent = Date.now() + this.skew - FINE_MS;
      coarse.clear();
      history.unix_ms.forEach((ms, i) => {
        const row = [
          ms / 1000,
          columns.pressure[i] ?? NaN,
          columns.level[i] ?? 0,
          columns.others[i] ?? 0,
          columns.unbacked[i] ?? 0,
          columns.backed[i] ?? 0,
          columns.free[i] ?? 0,
          columns.reserve[i] ?? 0,
        ];
        coarse.push(row);
        if (seed && ms > recent) fine.push(row);
      });
    }
    this.changed();
  }
}

const READS_BASE = 3 + 3 * TIER_COUNTED;
const base = (tier: TierName): number => 3 + TIERS.indexOf(tier) * TIER_COUNTED;

export interface Parts {
  others: number;
  unbacked: number;
  backed: number;
  free: number;
  reserve: number;
}

// A tier's memory: other processes', ours with and without a copy below, free, and the reserve
// within the free.
export function partsOf(tier: Tier): Parts {
  const backed = Math.min(tier.clean, tier.held);
  return {
    others: tier.others,
    unbacked: tier.held - backed,
    backed,
    free: tier.free,
    reserve: Math.min(tier.reserve + tier.granted, tier.free),
  };
}

function rowOf(tier: Tier, now: number): number[] {
  const p = partsOf(tier);
  const level = LEVELS.indexOf(tier.level);
  return [now, tier.pressure ?? NaN, level, p.others, p.unbacked, p.backed, p.free, p.reserve];
}
