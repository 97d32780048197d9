// SPDX-License-Identifier: Apache-2.0
// The daemon's JSON, as in docs/reference/http.md.

export type Level = "relaxed" | "normal" | "pressure" | "critical" | "emergency";
export type Mode = Level | "workflow_aware";
export type TierName = "device" | "host" | "disk";
export type ActionName = "back" | "drop" | "demote" | "destroy" | "expire";

export const TIERS: readonly TierName[] = ["device", "host", "disk"];
export const LEVELS: readonly Level[] = ["relaxed", "normal", "pressure", "critical", "emergency"];

export interface Tier {
  name: string;
  capacity: number;
  entries: number;
  bytes: number;
  backed: number;
  clean: number;
  held: number;
  others: number;
  total: number;
  free: number;
  reserve: number;
  granted: number;
  pressure?: number | null;
  level: Level;
  level_since_unix_ms: number;
  level_changes: number;
  copied_down: number;
  copied_up: number;
  left_by_action: Record<ActionName, number>;
  left_bytes_by_action: Record<ActionName, number>;
}

// A process that holds memory of the card. The name is empty where it cannot be told.
export interface Process {
  pid: number;
  name: string;
  bytes: number;
  own: boolean;
}

export interface State {
  version: string;
  unix_ms: number;
  started_unix_ms?: number;
  mode: Mode;
  blocked: boolean;
  controls: boolean;
  thresholds: { normal: number; pressure: number; critical: number; emergency: number };
  entries: number;
  tokens: number;
  leases: number;
  hits: number;
  misses: number;
  hit_tokens?: number;
  prefill_s: number;
  sets: number;
  refused_blocked: number;
  left_by_reason: Record<string, number>;
  left_by_action: Record<ActionName, number>;
  destroyed_by_reason?: Record<string, number>;
  machine?: string;
  processes?: Process[];
  reads?: { bounds_s: number[]; within: number[] };
  give_back: { count: number; bytes: number; seconds: number; last_s: number; within: number[] };
  device?: Tier;
  host?: Tier;
  disk?: Tier;
  loading?: boolean;
}

export interface Left {
  number: number;
  unix_ms: number;
  tier: TierName;
  key: string;
  key_bytes?: number;
  action: ActionName;
  reason: string;
  level: Level;
  order?: string;
  bytes: number;
  tokens: number;
}
export interface LevelChange {
  number: number;
  unix_ms: number;
  tier: TierName;
  from: Level;
  level: Level;
  pressure: number;
}
export type Event = Left | LevelChange;
export const isLeft = (event: Event): event is Left => "action" in event;

export interface Context {
  key: string;
  hex?: string;
  agent: string;
  tokens: number;
  bytes: number;
  tier: TierName;
  backed: boolean;
  idle_s: number;
  uses: number;
  leases: number;
  steps?: number;
}
export interface Page {
  total: number;
  matching: number;
  contexts: Context[];
}

export interface Passage {
  unix_ms: number;
  generation: number;
  action: ActionName | "came";
  reason?: string;
  tier: TierName;
  from?: TierName;
  level?: Level;
  pressure?: number;
  bytes: number;
}
export interface Explanation {
  key: string;
  hex?: string;
  key_bytes: number;
  found: boolean;
  entry?: Omit<Context, "key">;
  explain: string;
  journey: Passage[];
  graph?: string;
  steps?: number;
}

export interface Step {
  id: string;
  agent: string;
  state: "pending" | "ready" | "running" | "done" | "skipped" | "failed";
  join: string;
  visits: number;
  steps?: number;
  eta_ms?: number;
  p: number;
}
export interface Edge {
  from: number;
  to: number;
  kind: "forward" | "back";
  prob?: number;
  dead?: boolean;
}
export interface AgentKeys {
  agent: string;
  keys: number;
  tiers: Partial<Record<TierName, number>>;
  gone: number;
  bytes: number;
  coming: number;
}
export interface Run {
  run: string;
  client?: string;
  workflow?: string;
  steps: Step[];
  steps_more: number;
  edges: Edge[];
  agents: AgentKeys[];
}
export interface Graph {
  runs_live: number;
  steps_live?: number;
  runs: Run[];
  moves: { key: string; from: TierName; to: TierName; bytes: number }[];
}

export interface HistoryTier {
  pressure: (number | null)[];
  level: number[];
  others: number[];
  unbacked: number[];
  backed: number[];
  free: number[];
  reserve: number[];
}
export interface History {
  unix_ms: number[];
  tiers: Partial<Record<TierName, HistoryTier>>;
}
