// SPDX-License-Identifier: Apache-2.0
// The daemon's terms as sentences.
import type { Level, Mode, Passage } from "./types";

export const LEVEL_NAMES: Record<Mode, string> = {
  relaxed: "Relaxed",
  normal: "Normal",
  pressure: "Pressure",
  critical: "Critical",
  emergency: "Emergency",
  workflow_aware: "Workflow aware",
};

export const MODE_MEANINGS: Record<Mode, string> = {
  relaxed: "Idle memory is in use and nothing has to be evicted.",
  normal: "Contexts idle for minutes are copied to a lower tier, so that they can be evicted at once.",
  pressure: "Other processes need memory: the heaviest and least used contexts are evicted first.",
  critical: "Memory is short: idle contexts are demoted; none is destroyed while a lower tier has room.",
  emergency: "The tier takes nothing new, and idle contexts are evicted now.",
  workflow_aware: "Agents' steps decide: contexts needed last are evicted first.",
};

export const REASONS: Record<string, string> = {
  expired: "its time to live was over",
  idle: "idle longer than the level allows",
  heavy: "most tokens for the least use",
  order: "first in the policy's order",
  room: "its memory was needed for a set",
  budget: "its tokens were needed for a set",
  reserve: "free memory fell below the reserve",
  ask: "another process asked for memory",
  erased: "a client erased it",
  replaced: "its key was set again",
  cleared: "the cache was cleared",
  corrupt: "its bytes were damaged",
  lost: "its device or file was lost",
};

// Write-back copies entries that have not been idle for long.
export function reasonText(action: string, reason: string): string {
  if (action === "back" && reason === "idle") return "idle for a moment, written back ahead of need";
  return REASONS[reason] ?? "";
}

export const ACTIONS: Record<string, string> = {
  back: "written back",
  drop: "dropped",
  demote: "demoted",
  destroy: "destroyed",
  expire: "expired",
};

export function passageText(p: Passage): string {
  if (p.action === "came") return `Copied up from ${p.from ?? "below"} to ${p.tier}`;
  const where = p.action === "back" ? `in ${p.tier}: a lower tier has a copy now` : `from ${p.tier}`;
  const verb = ACTIONS[p.action] ?? p.action;
  return `${verb.charAt(0).toUpperCase()}${verb.slice(1)} ${where}`;
}

export const levelName = (level: Level): string => LEVEL_NAMES[level];
