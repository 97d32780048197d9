// SPDX-License-Identifier: Apache-2.0
// What the tests share: a daemon of three tiers whose pressure is told by hand, contexts
// in it, and a browser.
import { Daemon, until } from "./daemon.mjs";
import { live, openBrowser, openPage } from "./browser.mjs";

// RELAXED, and so near to NORMAL that it is looked at every 8 ms whatever sample_period is. That
// is long: on a busy machine, too, pressure is known.
export const CALM = 0.65;
const SETTINGS = `capacity = "64MiB"
host_capacity = "96MiB"
disk_dir = "FOLDER/disk"
disk_capacity = "256MiB"
pressure_source = "file:FOLDER/pressure"
host_pressure_source = "file:FOLDER/calm"
disk_pressure_source = "file:FOLDER/calm"
write_back_after = "50ms"
sample_period = "1s"
policy = "workflow"`;

export const PASSWORD = "open sesame";
export const GRAPH = {
  run: "run-1",
  steps: [
    { id: "plan", agent: "planner" },
    { id: "act-1", agent: "coder" },
    { id: "act-2", agent: "tester" },
    { id: "review", agent: "reviewer" },
  ],
  edges: [
    { from: "plan", to: "act-1" },
    { from: "plan", to: "act-2" },
    { from: "act-1", to: "review" },
    { from: "act-2", to: "review" },
    { from: "review", to: "plan", kind: "back" },
  ],
};
export const AGENTS = ["planner", "coder", "tester", "reviewer"];

export class World {
  async open(program) {
    this.program = program;
    this.browser = await openBrowser();
    this.daemon = new Daemon(program, { settings: SETTINGS });
    const { writeFileSync, mkdirSync } = await import("node:fs");
    mkdirSync(`${this.daemon.folder}/disk`, { mode: 0o700 });
    writeFileSync(`${this.daemon.folder}/calm`, `${CALM}\n`);
    this.daemon.setPressure(CALM);
    await this.daemon.start();
    await this.fill(this.daemon);
    await this.settled(this.daemon);
    return this;
  }

  async fill(daemon) {
    const commands = [];
    AGENTS.forEach((agent, i) => {
      for (let n = 0; n < 10; n++) {
        commands.push(["SPILL.SET", `context/${agent}/${n}`, Buffer.alloc(200_000 + 1000 * n, i + 1), "TOKENS", 100 * (n + 1), "AGENT", agent]);
      }
    });
    const replies = await daemon.send(commands);
    const bad = replies.find((reply) => reply !== "OK");
    if (bad !== undefined) throw new Error(`the daemon is not filled: ${bad}`);
  }

  // All copies below are made; nothing moves by itself.
  settled(daemon) {
    return until("everything is clean", async () => {
      const m = await daemon.metrics();
      const of = (tier, what) => m.get(`spillway_tier_${what}{tier="${tier}"}`) ?? 0;
      return (
        m.get("spillway_transfers_in_flight") === 0 &&
        of("device", "clean_bytes") === of("device", "bytes") &&
        (!m.has('spillway_tier_bytes{tier="disk"}') || of("host", "clean_bytes") === of("host", "bytes"))
      );
    });
  }

  async page(path = "/", options = {}) {
    const opened = await openPage(this.browser, this.daemon.url + path, options);
    this.now = opened.page;
    await live(opened.page);
    return opened;
  }

  // A daemon that asks for a password, with the same in it.
  async guarded() {
    if (this.locked) return this.locked;
    const { writeFileSync } = await import("node:fs");
    const daemon = new Daemon(this.program, {
      settings: `capacity = "64MiB"\nhost_capacity = "96MiB"\nhost_pressure_source = "file:FOLDER/calm"\npressure_source = "file:FOLDER/pressure"\nwrite_back_after = "50ms"\nsample_period = "1s"`,
      password: PASSWORD,
    });
    writeFileSync(`${daemon.folder}/calm`, `${CALM}\n`);
    daemon.setPressure(CALM);
    await daemon.start();
    await this.fill(daemon);
    this.locked = daemon;
    return daemon;
  }

  async close() {
    await this.browser?.close();
    await this.daemon?.close();
    await this.locked?.close();
    await this.small?.close();
  }
}

// One label's sample.
export const tier = (metrics, name, what) => metrics.get(`spillway_tier_${what}{tier="${name}"}`);
