// SPDX-License-Identifier: Apache-2.0
// Who may do what, with which keys, and who can read it.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { live, openPage } from "./browser.mjs";
import { until } from "./daemon.mjs";
import { bytesText, check, equal, openRow, sameAsMetrics, test } from "./harness.mjs";
import { PASSWORD } from "./world.mjs";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["overview", "contexts", "steps", "events", "controls"];

async function seriousFindings(page) {
  // Not as a script of the page: its rules would not have it.
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`).join(" | ")}`);
}

async function logIn(world, hash = "") {
  const daemon = await world.guarded();
  const opened = await openPage(world.browser, `${daemon.url}/${hash}`);
  world.now = opened.page;
  await opened.page.waitForSelector("#password:visible");
  await opened.page.fill("#password", PASSWORD);
  await opened.page.keyboard.press("Enter");
  await live(opened.page);
  return { daemon, ...opened };
}

async function confirmed(page, yes) {
  const dialog = "dialog.confirm[open]";
  await page.click(`${dialog} >> button:has-text("${yes}")`);
  await page.waitForSelector(`${dialog} .result.good, ${dialog} .result.bad`);
  return page.textContent(`${dialog} .result`);
}

// Escape, and the dialog is gone: its focus is given back when it closes, a little later.
async function escape(page) {
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog.confirm", { state: "detached" });
}

export function registerAccess(world) {
  const { daemon: openDaemon } = world;

  test("without a password nothing can be changed, and it says why", async () => {
    const { page, context } = await world.page("/#controls");
    check("fields are off", await page.isDisabled("#reclaim-size"));
    check("and why", /has no password/.test(await page.textContent(".controls .note")));
    await page.goto(openDaemon.url + "/#contexts");
    await openRow(page);
    check("in a context, too", await page.isDisabled("dialog >> text=Drop …"));
    await context.close();
  });

  test("the password is asked for, and kept in the tab alone", async () => {
    const daemon = await world.guarded();
    const { page, context, asked } = await openPage(world.browser, daemon.url + "/");
    world.now = page;
    await page.waitForSelector("#password:visible");
    await until("it has the focus", async () => (await page.evaluate(() => document.activeElement.id)) === "password");
    equal("nothing else is shown", await page.locator("main:visible, nav:visible").count(), 0);
    await page.keyboard.type("wrong");
    await page.keyboard.press("Enter");
    await until("a wrong one is told", async () => (await page.textContent(".error")) === "Wrong password.");
    await page.fill("#password", PASSWORD);
    await page.keyboard.press("Enter");
    await live(page);
    await sameAsMetrics(page, daemon, "#tile-entries", (m) => m.get("spillway_entries"), String);
    const kept = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, JSON.stringify(sessionStorage)]);
    check("not in cookies nor beyond the tab", !kept[0].includes(PASSWORD) && kept[1] === "", kept);
    check("in no address", !asked.some((url) => url.includes("sesame")), asked);
    await page.reload();
    await live(page);
    const other = await context.newPage();
    await other.goto(daemon.url + "/");
    await other.waitForSelector("#password:visible");
    await context.close();
  });

  test("memory is given back on request, and the figure is that of /metrics", async () => {
    const { page, daemon, context, asked } = await logIn(world, "#controls");
    await world.settled(daemon);
    const before = await daemon.metrics();
    await page.fill("#reclaim-size", "4");
    await page.selectOption("#reclaim-unit", "MiB");
    await page.click("text=Reclaim …");
    await page.click("dialog.confirm >> text=Cancel");
    await page.waitForSelector("dialog.confirm", { state: "detached" });
    equal("no means no", (await daemon.metrics()).get("spillway_give_back_seconds_count"), before.get("spillway_give_back_seconds_count"));
    check("and asks nothing", !asked.some((url) => url.includes("/reclaim")), asked);
    await page.click("text=Reclaim …");
    const result = await confirmed(page, "Reclaim");
    const after = await daemon.metrics();
    const freed = after.get("spillway_give_back_bytes_total") - before.get("spillway_give_back_bytes_total");
    check("what was freed is said", freed >= 4 << 20 && result.startsWith(`${bytesText(freed)} given back`), { result, freed });
    await escape(page);
    await page.goto(daemon.url + "/#overview");
    const count = after.get("spillway_give_back_seconds_count");
    await until("the tile counts it", async () => (await page.textContent("#tile-giveback-note")).includes(`, ${count} ask`));
    const last = Number(await page.getAttribute("#tile-giveback", "data-value"));
    check("and took that long", last > 0 && last <= after.get("spillway_give_back_seconds_sum") + 1e-9, last);
    await page.goto(daemon.url + "/#controls");
    await page.fill("#reclaim-size", "1");
    await page.selectOption("#reclaim-unit", "GiB");
    await page.fill("#reclaim-within", "0.2");
    await page.click("text=Reclaim …");
    check("why not more", /not more, since/.test(await confirmed(page, "Reclaim")));
    await context.close();
  });

  test("a context is prefetched and dropped, after a question", async () => {
    const { page, daemon, context, asked } = await logIn(world, "#controls");
    await page.fill("#control-key", "context/coder/2");
    await page.click("text=Prefetch …");
    check("prefetch says what came", /being copied/.test(await confirmed(page, "Prefetch")));
    await escape(page);
    const entries = (await daemon.metrics()).get("spillway_entries");
    await page.click("#control-drop");
    equal("the question has its key", await page.textContent("dialog.confirm[open] .detail"), "context/coder/2");
    await escape(page);
    equal("Escape means no", (await daemon.metrics()).get("spillway_entries"), entries);
    check("and asks nothing", !asked.some((url) => url.includes("/drop")), asked);
    await page.click("#control-drop");
    equal("it is gone", await confirmed(page, "Drop it"), "It was erased.");
    equal("/metrics has one less", (await daemon.metrics()).get("spillway_entries"), entries - 1);
    await escape(page);
    await page.goto(daemon.url + "/#contexts");
    await page.fill("#context-search", "coder/3");
    await until("found", async () => /^1 of/.test(await page.textContent(".contexts .count")));
    await openRow(page);
    await page.click("dialog.context >> text=Drop …");
    equal("from the table, too", await confirmed(page, "Drop it"), "It was erased.");
    equal("two less", (await daemon.metrics()).get("spillway_entries"), entries - 2);
    await context.close();
  });

  test("everything by keys", async () => {
    const { page, context } = await world.page();
    for (const [i, name] of VIEWS.entries()) {
      await page.keyboard.press(String(i + 1));
      await page.waitForSelector(`nav a[data-view="${name}"][aria-current="page"]`);
    }
    await page.keyboard.press("1");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open] >> text=Keys");
    equal("which was there", await page.evaluate(() => location.hash), "#overview");
    await page.keyboard.press("2");
    equal("keys wait while a dialog is open", await page.evaluate(() => location.hash), "#overview");
    await escape(page);
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("Tab");
    equal("first comes the way past the head", await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("Enter");
    equal("which leads to the content", await page.evaluate(() => document.activeElement.id), "main");
    const reached = new Set();
    await page.evaluate(() => document.activeElement.blur());
    const wanted = ["Overview", "Controls", "?"];
    // From the content on, around: how much can have the focus there is the daemon's affair.
    for (let i = 0; i < 100 && !wanted.every((text) => reached.has(text)); i++) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.textContent));
    }
    check("links and buttons are reached", wanted.every((text) => reached.has(text)), [...reached]);
    await context.close();
  });

  test("light and dark", async () => {
    const { page, context } = await world.page("/", { colorScheme: "dark" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    equal("as the system has it", dark, "rgb(16, 22, 29)");
    await page.keyboard.press("t");
    await until("light on request", async () => (await ground()) === "rgb(244, 246, 248)");
    await page.reload();
    await live(page);
    equal("and next time", await ground(), "rgb(244, 246, 248)");
    await page.keyboard.press("t");
    await page.keyboard.press("t");
    await until("and back", async () => (await ground()) === dark);
    await context.close();
  });

  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing serious in ${colorScheme}`, async () => {
      const { page, context } = await world.page("/", { colorScheme });
      for (const view of VIEWS) {
        await page.goto(`${openDaemon.url}/#${view}`);
        await page.waitForSelector(`nav a[data-view="${view}"][aria-current="page"]`);
        if (view === "contexts") await page.waitForSelector(".sheet .table-row:not(.waiting)");
        equal(view, await seriousFindings(page), []);
      }
      await page.goto(`${openDaemon.url}/#contexts`);
      await openRow(page);
      await page.waitForSelector(".journey");
      equal("a context", await seriousFindings(page), []);
      await context.close();
      const locked = await openPage(world.browser, (await world.guarded()).url, { colorScheme });
      world.now = locked.page;
      await locked.page.waitForSelector("#password:visible");
      equal("the login", await seriousFindings(locked.page), []);
      await locked.context.close();
    });
  }
}
