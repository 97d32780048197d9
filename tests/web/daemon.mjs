// SPDX-License-Identifier: Apache-2.0
// A real spillwayd with a card of its own, and clients for both of its sides.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync, renameSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Until `look` gives something, or an error that says what was waited for.
export async function until(what, look, ms = 60_000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      last = await look();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}; last: ${last}`);
    await wait(40);
  }
}

export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// Replies of the Redis protocol, as far as tests need them.
function parse(buffer, at = 0) {
  const end = buffer.indexOf("\r\n", at);
  if (end < 0) return undefined;
  const line = buffer.toString("latin1", at + 1, end);
  const kind = String.fromCharCode(buffer[at]);
  if (kind === "$") {
    if (line === "-1") return { value: null, next: end + 2 };
    const from = end + 2;
    const to = from + Number(line);
    return buffer.length < to + 2 ? undefined : { value: buffer.subarray(from, to), next: to + 2 };
  }
  if (kind === "*") {
    const values = [];
    let next = end + 2;
    for (let i = 0; i < Number(line); i++) {
      const item = parse(buffer, next);
      if (!item) return undefined;
      values.push(item.value);
      next = item.next;
    }
    return { value: values, next };
  }
  return { value: kind === "-" ? new Error(line) : kind === ":" ? Number(line) : line, next: end + 2 };
}

function encode(words) {
  const parts = [`*${words.length}\r\n`];
  for (const word of words) {
    const bytes = Buffer.isBuffer(word) ? word : Buffer.from(String(word));
    parts.push(`$${bytes.length}\r\n`, bytes, "\r\n");
  }
  return Buffer.concat(parts.map((part) => (Buffer.isBuffer(part) ? part : Buffer.from(part))));
}

export class Daemon {
  // `settings`: lines of the cache; `server`: lines of [server].
  constructor(program, { settings = "", server = "", password = "", card = "", total = 0 } = {}) {
    this.program = program;
    this.folder = mkdtempSync(join(tmpdir(), "spillway-web-"));
    this.socket = join(this.folder, "s.sock");
    this.pressureFile = join(this.folder, "pressure");
    this.password = password;
    this.given = { settings, server, card, total };
  }

  async start(more = {}) {
    this.port ??= await freePort();
    const { settings, server } = { ...this.given, ...more };
    const secret = this.password ? `password = "${this.password}"\n` : "";
    const text = `${settings.replaceAll("FOLDER", this.folder)}\n[server]\nport = 0\nhttp_port = ${this.port}\n${secret}${server}\n`;
    const config = join(this.folder, "d.toml");
    writeFileSync(config, text);
    this.process = spawn(this.program, ["--config", config, "--socket", this.socket], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.log = "";
    this.process.stderr.on("data", (data) => (this.log = (this.log + data).slice(-4000)));
    this.ended = new Promise((resolve) => this.process.on("exit", resolve));
    await until("the daemon answers", async () => {
      if (this.process.exitCode !== null) throw new Error(`it ended: ${this.log}`);
      return (await fetch(`${this.url}/readyz`)).ok;
    });
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  setPressure(value) {
    writeFileSync(this.pressureFile + ".new", `${value}\n`);
    renameSync(this.pressureFile + ".new", this.pressureFile);
  }

  async kill(signal = "SIGKILL") {
    this.process.kill(signal);
    await this.ended;
  }

  async close() {
    if (this.process?.exitCode === null && this.process.signalCode === null) await this.kill("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  // Commands at once, their replies in order.
  send(commands) {
    return new Promise((resolve, reject) => {
      const replies = [];
      let buffer = Buffer.alloc(0);
      const socket = createConnection(this.socket);
      socket.setTimeout(60_000, () => socket.destroy(new Error("no reply")));
      socket.on("error", reject);
      socket.on("data", (data) => {
        buffer = Buffer.concat([buffer, data]);
        for (let item = parse(buffer); item; item = parse(buffer)) {
          replies.push(item.value);
          buffer = buffer.subarray(item.next);
        }
        if (replies.length >= all.length) {
          socket.end();
          const skip = all.length - commands.length;
          resolve(replies.slice(skip));
        }
      });
      const all = this.password ? [["AUTH", this.password], ...commands] : commands;
      socket.write(Buffer.concat(all.map(encode)));
    });
  }

  async ask(path, init = {}) {
    const headers = this.password ? { Authorization: `Bearer ${this.password}` } : {};
    return fetch(this.url + path, { ...init, headers: { ...headers, ...init.headers } });
  }

  // Every sample of /metrics by its name and labels, as it stands there.
  async metrics() {
    const text = await (await this.ask("/metrics")).text();
    const samples = new Map();
    for (const line of text.split("\n")) {
      if (line === "" || line.startsWith("#")) continue;
      const space = line.lastIndexOf(" ");
      samples.set(line.slice(0, space), Number(line.slice(space + 1)));
    }
    return samples;
  }

  // Resident memory, in bytes.
  async rss() {
    const { readFileSync } = await import("node:fs");
    const status = readFileSync(`/proc/${this.process.pid}/status`, "utf8");
    return Number(/VmRSS:\s+(\d+)/.exec(status)[1]) * 1024;
  }
}
