// SPDX-License-Identifier: Apache-2.0
// The daemon goes, comes back, and is another one.
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { live } from "./browser.mjs";
import { until } from "./daemon.mjs";
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
    const seen = Date.now();
    const notice = await page.textContent(".notice");
    // Each second from the kill until it was seen to be noticed.
    const seconds = Array.from({ length: Math.ceil((seen - killed) / 1000) + 1 }, (_, n) => Math.min(killed + 1000 * n, seen));
    const times = await page.evaluate((all) => all.map((ms) => new Date(ms).toLocaleTimeString("en-GB")), seconds);
    check("since when", times.some((time) => notice.includes(`since ${time}`)), { notice, times });
    // What is drawn may be late on a busy machine; a second that has not passed is never counted.
    let ahead = "";
    await until("time goes on", async () => {
      const due = Math.floor((Date.now() - seen) / 1000);
      const shown = await page.textContent(".notice");
      const counted = Number(/\((\d+) s\)/.exec(shown)?.[1] ?? NaN);
      if (counted > (Date.now() - killed) / 1000) ahead = shown;
      return counted >= 2 && counted >= due;
    });
    equal("and not ahead of itself", ahead, "");
    equal("what was stays in sight", await page.textContent("#tile-entries"), grouped(entries));
    await daemon.start();
    await page.waitForSelector('.dot[data-state="live"]');
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
    await page.waitForSelector(".notice button:visible");
    const notice = await page.textContent(".notice");
    check("both versions are named", notice.includes(other) && notice.includes(version), notice);
    await page.click(".notice button");
    await page.waitForSelector(".notice", { state: "hidden" });
    await live(page);
    equal("the new page is of the new version", await page.textContent(".version"), `spillwayd ${other}`);
    await context.close();
  });
}
