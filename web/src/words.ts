// The words of the daemon in sentences.
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
  relaxed: "Idle memory is lent out and nothing has to leave.",
  normal: "What has been idle for minutes is backed below, so that it can leave at once.",
  pressure: "Others need memory: the heaviest and least used contexts go first.",
  critical: "Memory is short: idle contexts move down; none is destroyed while a lower tier has room.",
  emergency: "The tier takes nothing new, and what is idle leaves now.",
  workflow_aware: "Agents' steps decide: what is needed last goes first.",
};

export const REASONS: Record<string, string> = {
  expired: "its time was over",
  idle: "idle longer than the level allows",
  heavy: "most tokens for the least use",
  order: "first in the policy's order",
  room: "its place was needed for a set",
  budget: "its tokens were needed for a set",
  reserve: "free memory fell under the reserve",
  ask: "a neighbour asked for memory",
  erased: "a client erased it",
  replaced: "its key was set again",
  cleared: "the cache was cleared",
  corrupt: "its bytes were damaged",
  lost: "its device or file was lost",
};

// What is copied ahead of need has not been idle for too long.
export function reasonText(action: string, reason: string): string {
  if (action === "back" && reason === "idle") return "unused for a moment, copied ahead of need";
  return REASONS[reason] ?? "";
}

export const ACTIONS: Record<string, string> = {
  back: "backed",
  drop: "dropped",
  demote: "moved down",
  destroy: "destroyed",
  expire: "expired",
};

export function passageText(p: Passage): string {
  if (p.action === "came") return `Came up from ${p.from ?? "below"} to ${p.tier}`;
  const where = p.action === "back" ? `in ${p.tier}: it has a copy below now` : `from ${p.tier}`;
  const verb = ACTIONS[p.action] ?? p.action;
  return `${verb.charAt(0).toUpperCase()}${verb.slice(1)} ${where}`;
}

export const levelName = (level: Level): string => LEVEL_NAMES[level];
