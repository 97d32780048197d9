// SPDX-License-Identifier: Apache-2.0
// contexts_100k.mjs SPILLWAYD: the dashboard over a daemon with 100,000 contexts. Run by
// tools/web_tests.py --bench. SOAK_MIN=5 chooses how long it is watched at 10 Hz.
import { cpus } from "node:os";
import { openBrowser, openPage } from "./browser.mjs";
import { Daemon, until, wait } from "./daemon.mjs";

const program = process.argv[2];
const COUNT = Number(process.env.CONTEXTS ?? 100_000);
const SOAK_MIN = Number(process.env.SOAK_MIN ?? 5);
const MIB = 2 ** 20;

const say = (what, text) => console.log(`${what.padEnd(46)} ${text}`);
const sorted = (list) => [...list].sort((a, b) => a - b);
const at = (list, share) => sorted(list)[Math.min(list.length - 1, Math.floor(share * list.length))];
const spread = (list, unit = "ms") => `p50 ${at(list, 0.5).toFixed(1)} ${unit}, p95 ${at(list, 0.95).toFixed(1)}, most ${at(list, 1).toFixed(1)} (${list.length})`;
const mib = (bytes) => `${(bytes / MIB).toFixed(1)} MiB`;

async function fill(daemon) {
  const batch = 5000;
  for (let from = 0; from < COUNT; from += batch) {
    const commands = [];
    for (let i = from; i < Math.min(COUNT, from + batch); i++) {
      commands.push(["SPILL.SET", `context/agent-${i % 997}/${String(i).padStart(6, "0")}`, "x".repeat(64), "TOKENS", 1 + (i % 400), "AGENT", `agent-${i % 997}`]);
    }
    await daemon.send(commands);
  }
}

async function apiTimes(daemon) {
  for (const query of ["sort=idle", "sort=key", "sort=agent", "sort=bytes&desc=1", "sort=steps", "sort=key&offset=99000", "sort=idle&search=agent-77"]) {
    const times = [];
    for (let i = 0; i < 15; i++) {
      const began = performance.now();
      await (await daemon.ask(`/api/v1/contexts?limit=100&${query}`)).arrayBuffer();
      times.push(performance.now() - began);
    }
    say(`GET /api/v1/contexts?${query}`, spread(times));
  }
}

async function firstView(browser, daemon) {
  const times = [];
  for (let i = 0; i < 7; i++) {
    const { context, page } = await openPage(browser, "about:blank");
    await page.goto(daemon.url + "/");
    await page.waitForFunction((n) => document.querySelector("#tile-entries")?.dataset.value === String(n) && document.querySelector(".uplot canvas"), COUNT, { polling: "raf" });
    times.push(await page.evaluate(() => performance.now()));
    await context.close();
  }
  say("time to first view (figures and chart)", spread(times));
}

async function table(page, daemon) {
  await page.goto(daemon.url + "/#contexts");
  await page.waitForSelector(".sheet .table-row:not(.waiting)");
  const jumps = await page.evaluate(async (count) => {
    const times = [];
    const scroller = document.querySelector(".scroller");
    for (let i = 0; i < 30; i++) {
      const row = Math.floor(((i * 7919) % 1000) / 1000 * (count - 100));
      const began = performance.now();
      scroller.scrollTop = row * 34;
      for (;;) {
        await new Promise(requestAnimationFrame);
        const drawn = [...document.querySelectorAll(".sheet .table-row:not([hidden])")].find((each) => Number(each.dataset.index) === row);
        if (drawn && !drawn.classList.contains("waiting")) break;
      }
      times.push(performance.now() - began);
    }
    return times;
  }, COUNT);
  say("jump to a row far away until it is drawn", spread(jumps));
  const frames = await page.evaluate(async () => {
    const times = [];
    const scroller = document.querySelector(".scroller");
    let last = await new Promise(requestAnimationFrame);
    const end = last + 5000;
    while (last < end) {
      scroller.scrollTop += 120;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
    return times;
  });
  say("frames while scrolling on, 5 s", spread(frames));
  const searches = [];
  for (const word of ["agent-77/", "00042", "agent-500", "no such", "context", "agent-9/", "0999"]) {
    const ms = await page.evaluate(async (text) => {
      const field = document.querySelector("#context-search");
      const count = document.querySelector(".contexts .count");
      const before = count.textContent;
      const began = performance.now();
      field.value = text;
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
      while (count.textContent === before && performance.now() - began < 5000) await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }, word);
    searches.push(ms);
    await wait(100);
  }
  say("search until counted (150 ms wait for typing)", spread(searches));
}

async function heapOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { documents, nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
  await session.detach();
  return { usedSize, documents, nodes, jsEventListeners };
}

async function idleTraffic(daemon, query, seconds) {
  const abort = new AbortController();
  const response = await daemon.ask(`/api/v1/live?every=100ms&${query}`, { signal: abort.signal });
  setTimeout(() => abort.abort(), seconds * 1000);
  let bytes = 0;
  try {
    for await (const chunk of response.body) bytes += chunk.length;
  } catch {
    // Its time is over.
  }
  say(`stream when idle (${query || "whole states"}), a minute`, `${((bytes / seconds) * 60 / 1024).toFixed(1)} KiB`);
}

async function soak(page, daemon) {
  await page.goto(daemon.url + "/#overview");
  let stop = false;
  const load = (async () => {
    for (let i = 0; !stop; i++) {
      await daemon.send([["SET", `soak-${i % 50}`, "y".repeat(100 + (i % 1000))], ["GET", "context/agent-1/000001"], ["DEL", `soak-${(i + 25) % 50}`]]);
      await wait(50);
    }
  })();
  await wait(15_000);
  const heaps = [];
  const daemons = [];
  for (let minute = 0; minute <= SOAK_MIN * 2; minute++) {
    heaps.push(await heapOf(page));
    daemons.push(await daemon.rss());
    if (minute < SOAK_MIN * 2) await wait(30_000);
  }
  stop = true;
  await load;
  say(`heap after a collection, every 30 s for ${SOAK_MIN} min`, heaps.map((h) => (h.usedSize / MIB).toFixed(2)).join(" "));
  say("daemon's memory, likewise", daemons.map((bytes) => (bytes / MIB).toFixed(1)).join(" "));
  say("nodes of the page, likewise", heaps.map((h) => h.nodes).join(" "));
}

const daemon = new Daemon(program, { settings: 'capacity = "512MiB"\npressure_source = "file:FOLDER/pressure"' });
daemon.setPressure(0.3);
await daemon.start();
say("machine", `${cpus().length} x ${cpus()[0].model}`);
await fill(daemon);
const entries = (await daemon.metrics()).get("spillway_entries");
if (entries !== COUNT) throw new Error(`${entries} contexts, not ${COUNT}`);
await wait(3000);
const alone = await daemon.rss();
say("daemon's memory with that many", mib(alone));
await apiTimes(daemon);
await idleTraffic(daemon, "changes=1", 60);
await idleTraffic(daemon, "", 10);
const browser = await openBrowser();
await firstView(browser, daemon);
const before = await daemon.rss();
const { page } = await openPage(browser, daemon.url + "/");
await until("live", () => page.isVisible('.dot[data-state="live"]'));
await wait(10_000);
const watched = await daemon.rss();
say("daemon: memory with the overview open", `${mib(watched)} (${mib(watched - before)} more)`);
say("page: heap on the overview", mib((await heapOf(page)).usedSize));
await table(page, daemon);
const heap = await heapOf(page);
say("page: heap on the table, nodes", `${mib(heap.usedSize)}, ${heap.nodes}`);
say("daemon: memory with the table open", `${mib(await daemon.rss())} (${mib((await daemon.rss()) - alone)} more than alone)`);
await soak(page, daemon);
await browser.close();
await daemon.close();
