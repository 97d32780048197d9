// SPDX-License-Identifier: Apache-2.0
// The stream of state and events. It is read with fetch, since the password is sent in a header.
// After a break it continues from the last event.
import { ApiError, ask } from "./api";
import type { Event, State } from "./types";

const RETRY_MS = [250, 500, 1000, 2000];
// The daemon sends at least a comment every 5 s.
const SILENCE_MS = 12_000;

export interface Listener {
  state(state: State): void;
  event(event: Event): void;
  passed(count: number): void;
  connected(): void;
  lost(why: ApiError): void;
}

// A merge patch of RFC 7396; null removes a field.
export function mergePatch(into: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const old = into !== null && typeof into === "object" && !Array.isArray(into) ? into : {};
  const merged: Record<string, unknown> = { ...(old as Record<string, unknown>) };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = mergePatch(merged[name], value);
  }
  return merged;
}

export class Live {
  private abort = new AbortController();
  private after: number | undefined;
  private state: State | undefined;
  private tries = 0;
  private timer = 0;
  private watchdog = 0;

  constructor(
    private readonly listener: Listener,
    private readonly every = "100ms",
  ) {}

  start(): void {
    this.stop();
    this.abort = new AbortController();
    void this.run(this.abort);
  }

  stop(): void {
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    this.abort.abort();
  }

  private async run(abort: AbortController): Promise<void> {
    try {
      const after = this.after === undefined ? "" : `&after=${this.after}`;
      const path = `/api/v1/live?changes=1&every=${this.every}${after}`;
      const response = await ask(path, { signal: abort.signal });
      this.tries = 0;
      this.listener.connected();
      await this.read(response, abort);
      throw new ApiError(0, "the daemon closed the connection");
    } catch (error) {
      if (this.abort !== abort) return; // Another stream has replaced it.
      clearTimeout(this.watchdog);
      const why = error instanceof ApiError ? error : new ApiError(0, "the daemon fell silent");
      this.state = undefined;
      this.listener.lost(why);
      if (why.status === 401) return; // Until the user logs in.
      const wait = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)];
      this.timer = window.setTimeout(() => this.start(), wait);
    }
  }

  private async read(response: Response, abort: AbortController): Promise<void> {
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      clearTimeout(this.watchdog);
      this.watchdog = window.setTimeout(() => abort.abort(), SILENCE_MS);
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) this.take(block);
    }
  }

  private take(block: string): void {
    let name = "";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (data === "") return;
    const json: unknown = JSON.parse(data);
    if (name === "state" || name === "change") {
      this.state = (name === "state" ? json : mergePatch(this.state, json)) as State;
      this.listener.state(this.state);
    } else if (name === "passed") {
      this.listener.passed((json as { count: number }).count);
    } else if (name === "left" || name === "level") {
      this.after = (json as Event).number;
      this.listener.event(json as Event);
    }
  }
}
