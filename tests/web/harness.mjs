// SPDX-License-Identifier: Apache-2.0
// Tests by name, one after another; what fails is told with its page as it looked.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { until } from "./daemon.mjs";

const tests = [];
export const test = (name, run) => tests.push({ name, run });

export function check(what, holds, saw = "") {
  if (!holds) throw new Error(`${what}${saw === "" ? "" : `; saw: ${JSON.stringify(saw)?.slice(0, 600)}`}`);
}

export function equal(what, saw, wanted) {
  check(`${what}: wanted ${JSON.stringify(wanted)}`, JSON.stringify(saw) === JSON.stringify(wanted), saw);
}

// The page's number is the one of /metrics, fetched in the same moment, and its text is that
// number. A stream is behind by a tenth of a second, on a busy machine by more: both are read
// again for as long as 20 s.
export async function sameAsMetrics(page, daemon, selector, fromMetrics, text) {
  let shown;
  let wanted;
  await until(
    `${selector} is as /metrics has it`,
    async () => {
      // At once: between two questions it may be drawn anew.
      shown = await page.locator(selector).evaluate((element) => ({
        value: Number(element.getAttribute("data-value")),
        text: element.textContent,
      }));
      wanted = fromMetrics(await daemon.metrics());
      return close(shown.value, wanted) && (!text || shown.text.startsWith(text(wanted)));
    },
    20_000,
  ).catch((error) => {
    const reads = text && wanted !== undefined ? `, which reads ${text(wanted)}` : "";
    throw new Error(`${selector}: the page has ${JSON.stringify(shown)}, /metrics ${wanted}${reads}; ${error.message}`);
  });
  return shown;
}

// Opens the first row of the table. A row that is being read anew does not open, and the table of
// before is in sight until it is: it is clicked until its panel is there.
export function openRow(page) {
  return until("the first row opens", async () => {
    if ((await page.locator("dialog.context[open]").count()) > 0) return true;
    await page.locator(".sheet .table-row:not(.waiting)").first().click({ timeout: 5000 });
    return (await page.locator("dialog.context[open]").count()) > 0;
  });
}

const close = (a, b) => a === b || Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));

// Sizes as the page writes them, made here anew.
export function bytesText(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  // What would be written with four digits is one of the next unit, or has one place less.
  let at = 0;
  while (at < 4 && n / 1024 ** at >= 1023.5) at++;
  const value = n / 1024 ** at;
  if (at === 0) return `${n} B`;
  const places = [2, 1].find((each) => value.toFixed(each).replace(".", "").length <= 3) ?? 0;
  return `${value.toFixed(places)} ${units[at]}`;
}

export async function runAll(filter, pageNow) {
  let failed = 0;
  let passed = 0;
  for (const { name, run } of tests) {
    if (filter && !name.includes(filter)) continue;
    const began = Date.now();
    try {
      await run();
      passed++;
      if (process.env.VERBOSE) console.log(`ok     ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed++;
      console.log(`FAILED: ${name}\n  ${String(error.stack).split("\n").slice(0, 4).join("\n  ")}`);
      try {
        mkdirSync("failed", { recursive: true });
        const path = join("failed", `${name.replace(/\W+/g, "-")}.png`);
        await pageNow()?.screenshot({ path });
        console.log(`  its page: build/web-tests/${path}`);
      } catch {
        // There was none.
      }
    }
  }
  if (passed + failed === 0) {
    console.log(`FAILED: no test has '${filter}' in its name`);
    failed++;
  }
  console.log(`${passed} passed, ${failed} failed, 0 skipped`);
  return failed;
}
