// SPDX-License-Identifier: Apache-2.0
// What an operator watches: losses, processes on the card, rates and latencies, capacities, the
// machine; at the width of a telephone and of a desk.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { hostname } from "node:os";
import { live, openPage } from "./browser.mjs";
import { Daemon, until } from "./daemon.mjs";
import { check, equal, sameAsMetrics, test } from "./harness.mjs";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["overview", "contexts", "steps", "events", "controls"];
const CARD = `web-test-${process.pid}`;

async function findings(page) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target).join(" | ")}`);
}

export function registerWatch(world) {
  const { daemon } = world;
  // A shared card, no tier below: what does not fit is destroyed. It holds one chunk of the largest
  // card, which is a part of the RAM that is free.
  let small;
  const lossy = async () => {
    small ??= await new Daemon(world.program, { settings: `card = "${CARD}"\ncapacity = "32MiB"\nreserve = 0.0` }).start();
    world.small = small;
    return small;
  };

  test("rates, latencies, the machine and its uptime", async () => {
    const { page, context } = await world.page();
    const before = (await daemon.metrics()).get("spillway_read_seconds_count") ?? 0;
    await until("reads are counted", async () => {
      await daemon.send(Array.from({ length: 20 }, (_, n) => ["GET", `context/coder/${n % 10}`]));
      const note = await page.textContent("#tile-reads-note");
      return /^p50 [\d.]+ (µs|ms|s), p99 [\d.]+ (µs|ms|s)$/.test(note);
    });
    check("as /metrics counts them", (await daemon.metrics()).get("spillway_read_seconds_count") >= before + 20);
    const rate = await page.textContent("#tile-reads");
    check("a rate", /^[\d.,]+( K)?\/s$/.test(rate), rate);
    const where = await page.textContent(".where");
    check("the machine's name and uptime", where.startsWith(`${hostname()}, up `) && /, up (\d+ s|\d+ min( \d\d s)?)$/.test(where), where);
    await context.close();
  });

  test("a lower tier's chart ends at its capacity", async () => {
    const { page, context } = await world.page();
    // The chart stands before its first point: "no data yet" is not its last word.
    let label;
    await until("the host's chart is drawn", async () => {
      label = await page.evaluate(() => document.querySelectorAll(".chart")[1]?.getAttribute("aria-label"));
      return label && !/no data yet/.test(label);
    });
    check("its words have the capacity", /held of a capacity of 96.0 MiB/.test(label), label);
    await context.close();
  });

  test("processes on the card by name and pid", async () => {
    const own = await lossy();
    const spillway = join(dirname(world.program), "spillway");
    const neighbour = spawn(spillway, ["squeeze", "2MiB", "--card", CARD, "--for", "60s"], { stdio: "ignore" });
    const { page, context } = await openPage(world.browser, `${own.url}/`);
    world.now = page;
    await page.waitForSelector(`.processes tr[data-pid="${neighbour.pid}"]`);
    // It is there before it has taken memory; that is taken in chunks, so it may be more than was
    // asked for.
    await until("its name, pid and memory", async () => {
      const row = await page.textContent(`.processes tr[data-pid="${neighbour.pid}"]`);
      check("its row", new RegExp(`^spillway${neighbour.pid}[\\d.]+ MiB$`).test(row), row);
      return true;
    });
    neighbour.kill("SIGTERM");
    await page.waitForSelector(`.processes tr[data-pid="${neighbour.pid}"]`, { state: "detached" });
    await context.close();
  });

  test("losses are red and lead to their events; what clients erased is told apart", async () => {
    const own = await lossy();
    const { page, context } = await openPage(world.browser, `${own.url}/`);
    world.now = page;
    await live(page);
    const lost = (m) => [...m].filter(([name]) => name.startsWith("spillway_destroyed_total")).reduce((sum, [, n]) => sum + n, 0);
    equal("nothing is lost yet", lost(await own.metrics()), 0);
    check("so there is no link", await page.isHidden("#tile-destroyed-link"));
    await own.send([["SET", "mine", "x"], ["DEL", "mine"]]);
    await until("what clients erased", async () => /erased by clients: 1$/.test(await page.textContent("#tile-destroyed-note")));
    await own.send(Array.from({ length: 48 }, (_, n) => ["SET", `big-${n}`, Buffer.alloc(1_000_000, n)]));
    const { value } = await sameAsMetrics(page, own, "#tile-destroyed", lost, (n) => n.toLocaleString("en-US"));
    check("some were lost", value > 5, value);
    const colour = await page.evaluate(() => getComputedStyle(document.querySelector("#tile-destroyed")).color);
    const danger = await page.evaluate(() => {
      const probe = document.body.appendChild(document.createElement("i"));
      probe.style.color = "var(--danger)";
      const said = getComputedStyle(probe).color;
      probe.remove();
      return said;
    });
    equal("in red", colour, danger);
    equal("axe", await findings(page), []);
    await page.click("#tile-destroyed-link");
    await page.waitForSelector(".log .action.destroy");
    equal("losses only", await page.inputValue("#event-kind"), "destroy");
    equal("nothing that clients erased", await page.locator(".log .action.wanted").count(), 0);
    await page.selectOption("#event-kind", "erase");
    await page.waitForSelector(".log .action.wanted");
    equal("and the other way round", await page.locator(".log .action.destroy").count(), 0);
    await context.close();
  });

  for (const width of [320, 1280]) {
    test(`${width} px: nothing is scrolled sideways, axe is clean`, async () => {
      const own = await lossy();
      for (const url of [own.url, daemon.url]) {
        const { page, context } = await openPage(world.browser, `${url}/`, { viewport: { width, height: 800 } });
        world.now = page;
        await live(page);
        for (const view of VIEWS) {
          await page.goto(`${url}/#${view}`);
          await page.waitForSelector(`nav a[data-view="${view}"][aria-current="page"]`);
          if (view === "contexts" && url === daemon.url) await page.waitForSelector(".sheet .table-row:not(.waiting)");
          const widthOf = () => page.evaluate(() => {
            const most = document.documentElement.clientWidth;
            const inFrame = (e) => e.closest(".scroller, .events, .graph, .hidden, .skip, svg, .plot, .spans") !== null;
            const over = [...document.querySelectorAll("body *")].filter((e) => !inFrame(e) && e.getBoundingClientRect().right > most + 1);
            return { scroll: document.documentElement.scrollWidth, most, over: over.slice(0, 5).map((e) => e.className || e.tagName) };
          });
          // A chart is fitted to its frame after it is drawn.
          await until(`${view} fits`, async () => {
            const wide = await widthOf();
            check("no wider than the page", wide.scroll <= wide.most && wide.over.length === 0, wide);
            return true;
          }, 20_000);
          equal(`${view}: axe`, await findings(page), []);
        }
        await context.close();
      }
    });
  }
}
