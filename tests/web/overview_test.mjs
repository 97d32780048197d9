// SPDX-License-Identifier: Apache-2.0
// Figures, charts, basins, the mode, the log, the steps: as the daemon has them.
import { live } from "./browser.mjs";
import { until } from "./daemon.mjs";
import { bytesText, check, equal, sameAsMetrics, test } from "./harness.mjs";
import { CALM, GRAPH, tier } from "./world.mjs";

// The texts of the first of each, all of one moment; "" where there is none.
const textsOf = (page, ...selectors) =>
  page.evaluate((all) => all.map((each) => document.querySelector(each)?.textContent ?? ""), selectors);

// The device's levels of the last hour, as the daemon has kept them.
const levels = async (daemon) => (await (await daemon.ask("/api/v1/history")).json()).tiers.device?.level ?? [];

export function registerOverview(world) {
  const { daemon } = world;

  test("the page asks nobody but the daemon, and breaks no rule", async () => {
    const { page, asked, errors, context } = await world.page();
    await page.waitForSelector(".uplot canvas");
    check("requests are its own", asked.every((url) => url.startsWith(daemon.url)), asked);
    equal("nothing is complained about", errors, []);
    const index = await fetch(daemon.url + "/");
    const rules = index.headers.get("content-security-policy");
    check("rules are strict", /default-src 'none'/.test(rules) && !/unsafe/.test(rules), rules);
    equal("the page is asked for anew", index.headers.get("cache-control"), "no-cache");
    const script = asked.find((url) => url.endsWith(".js"));
    const file = await fetch(script, { headers: { "Accept-Encoding": "gzip" } });
    check("its script is kept", /immutable/.test(file.headers.get("cache-control")));
    equal("and zipped", file.headers.get("content-encoding"), "gzip");
    const again = await fetch(daemon.url + "/", { headers: { "If-None-Match": index.headers.get("etag") } });
    equal("what is the same is not sent", again.status, 304);
    await context.close();
  });

  test("figures are those of /metrics", async () => {
    const keys = Array.from({ length: 10 }, (_, n) => ["GET", `context/coder/${n}`]);
    await daemon.send([...keys, ["GET", "nothing"], ["GET", "nothing"]]);
    const { page, context } = await world.page();
    const grouped = (n) => n.toLocaleString("en-US");
    await sameAsMetrics(page, daemon, "#tile-entries", (m) => m.get("spillway_entries"), grouped);
    const ratio = (m) => m.get("spillway_hits_total") / (m.get("spillway_hits_total") + m.get("spillway_misses_total"));
    await sameAsMetrics(page, daemon, "#tile-hits", ratio, (r) => `${(r * 100).toFixed(1)} %`);
    const saved = (m) => m.get("spillway_hit_tokens_total") * m.get("spillway_prefill_seconds_per_token");
    const { value } = await sameAsMetrics(page, daemon, "#tile-saved", saved);
    check("ten contexts of 5,500 tokens in all saved something", value >= 5500 * 43e-6 * 0.99, value);
    check("and it says that this is declared", /declared/.test(await page.textContent("#tile-saved-note")));
    const clean = (m) => tier(m, "device", "clean_bytes") / tier(m, "device", "bytes");
    await sameAsMetrics(page, daemon, "#tile-clean", clean, (r) => `${(r * 100).toFixed(0)} %`);
    const lost = (m) => [...m].filter(([name]) => name.startsWith("spillway_destroyed_total{")).reduce((sum, [, n]) => sum + n, 0);
    await sameAsMetrics(page, daemon, "#tile-destroyed", lost, grouped);
    await sameAsMetrics(page, daemon, "#tile-refused", (m) => m.get('spillway_sets_refused_total{why="blocked"}'), grouped);
    await context.close();
  });

  test("basins and flows are those of /metrics", async () => {
    const { page, context } = await world.page();
    for (const name of ["device", "host", "disk"]) {
      await sameAsMetrics(page, daemon, `#basin-${name}-bytes`, (m) => tier(m, name, "bytes"), bytesText);
      await sameAsMetrics(page, daemon, `#basin-${name}-entries`, (m) => tier(m, name, "entries"), String);
      await sameAsMetrics(page, daemon, `#basin-${name}-free`, (m) => tier(m, name, "free_bytes"), bytesText);
      await sameAsMetrics(page, daemon, `#basin-${name}-others`, (m) => tier(m, name, "other_processes_bytes"), bytesText);
      for (const action of ["drop", "demote", "expire", "destroy"]) {
        const counter = `spillway_tier_actions_total{tier="${name}",action="${action}"}`;
        await sameAsMetrics(page, daemon, `#basin-${name}-${action}`, (m) => m.get(counter), String);
      }
    }
    const copied = (name, way) => `spillway_tier_copied_bytes_total{tier="${name}",direction="${way}"}`;
    const flows = [["#flow-host-down", copied("host", "down")], ["#flow-disk-down", copied("disk", "down")], ["#flow-device-up", copied("device", "up")], ["#flow-host-up", copied("host", "up")]];
    for (const [selector, counter] of flows) {
      await sameAsMetrics(page, daemon, selector, (m) => m.get(counter), bytesText);
    }
    const { value } = await sameAsMetrics(page, daemon, "#flow-host-down", (m) => m.get(copied("host", "down")));
    check("all was copied down", value > 8e6, value);
    await context.close();
  });

  test("what flows is seen flowing", async () => {
    const { page, context } = await world.page();
    // It is seen for two seconds after it flowed: a busy machine may miss it, and has another.
    let sent = 0;
    const rate = await until("it is seen", async () => {
      if (Date.now() - sent > 4000) {
        await daemon.send([["SPILL.SET", "flow", Buffer.alloc(4_000_000, 7), "TOKENS", 9]]);
        sent = Date.now();
      }
      return (await textsOf(page, ".flow .way.down.flowing strong"))[0];
    });
    check("in bytes a second", /^[\d.]+ (B|KiB|MiB|GiB)\/s$/.test(rate), rate);
    await daemon.send([["DEL", "flow"]]);
    await context.close();
  });

  test("the mode, and since when", async () => {
    const { page, context } = await world.page();
    for (const [pressure, level, text] of [[0.9, "pressure", "Pressure"], [0.97, "emergency", "Emergency"]]) {
      const before = Date.now();
      daemon.setPressure(pressure);
      await page.waitForSelector(`.mode[data-value="${level}"]`);
      // The page is behind /metrics by what the stream takes: both are read until they agree.
      await until(`the page tells of ${level} as /metrics does`, async () => {
        const metrics = await daemon.metrics();
        const [name, told, change] = await textsOf(page, ".mode", ".since", ".latest .events .change");
        equal("its name", name, text);
        equal("as /metrics has it", metrics.get(`spillway_mode{mode="${level}"}`), 1);
        equal("and its level", metrics.get(`spillway_tier_level{tier="device",level="${level}"}`), 1);
        check("its pressure", told.includes(`${(metrics.get('spillway_tier_pressure_ratio{tier="device"}') * 100).toFixed(1)} %`), told);
        const since = tier(metrics, "device", "level_start_time_seconds") * 1000;
        check("since a moment ago", since > before - 100 && since < Date.now() + 100, { since, before });
        const clock = await page.evaluate((ms) => new Date(ms).toLocaleTimeString("en-GB"), since);
        check("which the page says", told.includes(`since ${clock}`), { told, clock });
        check("and what happened last", change.includes(text), change);
        return true;
      });
    }
    check("what it means", /takes nothing new/.test(await page.textContent(".meaning")));
    // It is sampled once a second; the next test is about it.
    await until("the history has it", async () => (await levels(daemon)).includes(4));
    daemon.setPressure("nothing known");
    await until("unknown pressure is said", async () => /pressure unknown/.test(await page.textContent(".since")));
    equal("as /metrics has it", tier(await daemon.metrics(), "device", "pressure_known"), 0);
    daemon.setPressure(CALM);
    await page.waitForSelector('.mode[data-value="relaxed"]');
    await world.settled(daemon);
    await context.close();
  });

  test("a page opened later sees what was before", async () => {
    const hour = await levels(daemon);
    check("the emergency is in the last hour", hour.includes(4), hour);
    const { page, context } = await world.page();
    await page.click("text=15 min");
    const redOnChart = () => page.evaluate(() => {
      const canvas = document.querySelector(".uplot canvas");
      const ink = getComputedStyle(document.querySelector(".chart")).getPropertyValue("--emergency").trim();
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(ink.slice(i, i + 2), 16));
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 20);
      let found = 0;
      for (let i = 0; i < data.length; i += 4) found += data[i] === r && data[i + 1] === g && data[i + 2] === b ? 1 : 0;
      return found;
    });
    await until("and in the strip of levels on the chart", async () => (await redOnChart()) > 0);
    await until("charts have words, too", async () => {
      const label = await page.getAttribute(".chart", "aria-label");
      check("its label", /device: pressure [\d.]+ %, level Relaxed/.test(label), label);
      return true;
    });
    await until("events from before are listed", async () => {
      const events = await page.textContent(".latest .events");
      check("they are long", events.length > 40, events);
      return true;
    });
    await context.close();
  });

  test("the log tells reasons and can be searched", async () => {
    const { page, context } = await world.page("/#events");
    // What is live comes before the past does, as on a slow line: neither may cost the other.
    let release;
    const held = new Promise((resolve) => (release = resolve));
    await page.route("**/api/v1/history*", async (route) => {
      await held;
      await route.continue();
    });
    await page.reload();
    await live(page);
    await daemon.send([["SET", "gone-1", "x"], ["SET", "gone-2", "x"], ["SET", "left-3", "x"], ["DEL", "gone-1", "gone-2", "left-3"]]);
    await page.waitForSelector(".log .action.wanted");
    await until("what happened together is one line", async () => {
      const first = await page.textContent(".log .events > li >> nth=0");
      return /3 contexts from device/.test(first) && /erased: a client erased it/.test(first);
    });
    check("the past is not there yet", (await page.locator(".log .change").count()) === 0);
    release();
    await page.waitForSelector(".log .change");
    const last = await page.textContent(".log .events > li >> nth=0");
    check("the latest stays on top", /3 contexts from device/.test(last), last);
    await page.fill("#event-search", "gone-");
    await until("two fit", async () => /^2 of the last/.test(await page.textContent(".log .count")));
    await page.fill("#event-search", "");
    await page.selectOption("#event-kind", "level");
    await until("levels only", async () => (await page.locator(".log .events > li:not(.change)").count()) === 0);
    await until("there were some", async () => (await page.locator(".log .change").count()) >= 3);
    await page.selectOption("#event-kind", "destroy");
    await page.selectOption("#event-reason", "heavy");
    await page.waitForSelector(".log .nothing");
    await context.close();
  });

  test("steps are drawn as they are told", async () => {
    await daemon.send([["SPILL.GRAPH", "LOAD", JSON.stringify(GRAPH)], ["SPILL.GRAPH", "START", "run-1", "plan"]]);
    const { page, context } = await world.page("/#steps");
    const step = (id) => `g.step[data-step="${id}"]`;
    await page.waitForSelector(`${step("plan")}[data-state="running"]`);
    const text = async (id) => page.getAttribute(step(id), "aria-label");
    await until("the steps are as they were told", async () => {
      check("who is next", /next/.test(await text("act-1")) && /next/.test(await text("act-2")), await text("act-1"));
      check("who comes later", /in 2 steps/.test(await text("review")), await text("review"));
      // On a machine so slow that they were idle when the emergency came they are below.
      const { agents } = (await (await daemon.ask("/api/v1/graph")).json()).runs[0];
      const { tiers } = agents.find((each) => each.agent === "coder");
      const where = Object.entries(tiers).map(([name, n]) => `${n} ${name}`).join(", ");
      check("where their contexts are", where !== "" && (await text("act-1")).endsWith(`; ${where}`), { where, says: await text("act-1") });
      equal("edges", await page.locator("path.edge").count(), 5);
      equal("one leads back", await page.locator("path.edge.back").count(), 1);
      return true;
    });
    await until("runs are those of /metrics, and are said", async () => {
      equal("in /metrics", (await daemon.metrics()).get("spillway_graph_runs"), 1);
      const said = await page.textContent(".steps .count");
      check("on the page", /1 run is live/.test(said), said);
      return true;
    });
    await daemon.send([["SPILL.GRAPH", "FINISH", "run-1", "plan"], ["SPILL.GRAPH", "START", "run-1", "act-1"]]);
    await page.waitForSelector(`${step("act-1")}[data-state="running"]`);
    await until("the one before is done", async () => /done/.test(await text("plan")));
    await page.goto(daemon.url + "/#contexts");
    await page.fill("#context-search", "coder");
    await until("steps until use are in the table", async () => (await page.textContent(".sheet .table-row >> nth=0")).includes("runs"));
    await daemon.send([["SPILL.GRAPH", "END", "run-1"]]);
    await page.goto(daemon.url + "/#steps");
    await until("no run is live", async () => /No run is live/.test(await page.textContent(".steps .count")));
    await context.close();
  });
}
