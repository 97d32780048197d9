// The daemon goes, comes back, and is another one.
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until, wait } from "./daemon.mjs";
import { check, equal, sameAsMetrics, test } from "./harness.mjs";

const grouped = (n) => n.toLocaleString("en-US");

export function registerLoss(world) {
  const { daemon } = world;

  test("killed: the page says since when, and comes back by itself", async () => {
    await world.settled(daemon);
    const { page, context, errors } = await world.page();
    const entries = (await daemon.metrics()).get("spillway_entries");
    await sameAsMetrics(page, daemon, "#tile-entries", (m) => m.get("spillway_entries"), grouped);
    const killed = Date.now();
    await daemon.kill("SIGKILL");
    await page.waitForSelector('.dot[data-state="lost"]');
    const notice = await page.textContent(".notice");
    const times = await page.evaluate((ms) => [0, 1000, 2000].map((d) => new Date(ms + d).toLocaleTimeString("en-GB")), killed);
    check("since when", times.some((time) => notice.includes(`since ${time}`)), { notice, times });
    await wait(2100);
    check("time goes on", /\((2|3|4) s\)/.test(await page.textContent(".notice")), await page.textContent(".notice"));
    equal("what was stays in sight", await page.textContent("#tile-entries"), grouped(entries));
    await daemon.start();
    await page.waitForSelector('.dot[data-state="live"]', { timeout: 20_000 });
    await page.waitForSelector(".notice", { state: "hidden" });
    // What was on disk is there again.
    await until("it is read in", async () => (await daemon.metrics()).get("spillway_loading") === 0);
    const { value } = await sameAsMetrics(page, daemon, "#tile-entries", (m) => m.get("spillway_entries"), grouped);
    check("contexts came back from disk", value >= 40, value);
    await daemon.send([["SET", "after", "x"], ["DEL", "after"]]);
    await until("events go on", async () => (await page.textContent(".latest .events")).includes("after"));
    equal("nothing is complained about", errors, []);
    await context.close();
  });

  test("an old tab after an upgrade says so and offers to reload", async () => {
    const { page, context } = await world.page();
    const version = (await page.textContent(".version")).split(" ")[1];
    await daemon.kill("SIGTERM");
    // The same program but for its version: the bytes of that text are others.
    const other = version.slice(0, -1) + (version.endsWith("9") ? "8" : "9");
    const program = readFileSync(world.program);
    for (let at = program.indexOf(version + "\0"); at >= 0; at = program.indexOf(version + "\0", at + 1)) {
      program.write(other, at);
    }
    daemon.program = join(daemon.folder, "upgraded");
    writeFileSync(daemon.program, program);
    chmodSync(daemon.program, 0o755);
    await daemon.start();
    await page.waitForSelector(".notice button:visible", { timeout: 20_000 });
    const notice = await page.textContent(".notice");
    check("both versions are named", notice.includes(other) && notice.includes(version), notice);
    await page.click(".notice button");
    await page.waitForSelector('.dot[data-state="live"]');
    await until("the new page is of the new version", async () => (await page.textContent(".version")) === `spillwayd ${other}`);
    await page.waitForSelector(".notice", { state: "hidden" });
    await context.close();
  });
}
