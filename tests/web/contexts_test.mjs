// SPDX-License-Identifier: Apache-2.0
// The table of contexts, one of them, and keys as nobody would wish them.
import { until } from "./daemon.mjs";
import { check, equal, openRow, test } from "./harness.mjs";

const rowsIn = (page) => page.locator(".sheet .table-row:not([hidden])");
const firstKeys = async (page, n) => (await page.locator(".sheet .table-row:not([hidden]) .key").allTextContents()).slice(0, n);

async function openTable(world, options) {
  const opened = await world.page("/#contexts", options);
  await opened.page.waitForSelector(".sheet .table-row:not(.waiting)");
  return opened;
}

export function registerContexts(world) {
  const { daemon } = world;

  test("the table is counted, searched and sorted", async () => {
    const { page, context } = await openTable(world);
    const entries = (await daemon.metrics()).get("spillway_entries");
    await until("all are counted", async () => (await page.textContent(".contexts .count")) === `${entries} of ${entries} contexts`);
    equal("its rows are said", await page.getAttribute("#contexts-grid", "aria-rowcount"), String(entries + 1));
    await page.fill("#context-search", "context/coder");
    await until("ten fit", async () => (await page.textContent(".contexts .count")) === `10 of ${entries} contexts`);
    await page.click(".head >> text=Tokens");
    await until("most tokens first", async () => (await firstKeys(page, 2)).join() === "context/coder/9,context/coder/8");
    equal("which is said", await page.getAttribute(".head .tokens", "aria-sort"), "descending");
    await page.click(".head >> text=Tokens");
    await until("and last", async () => (await firstKeys(page, 2)).join() === "context/coder/0,context/coder/1");
    // What is drawn is from the last two seconds: a copy made meanwhile is in the next.
    await until("a row is what the daemon tells", async () => {
      const told = await (await daemon.ask("/api/v1/contexts?search=context/coder&sort=tokens&limit=1")).json();
      const row = told.contexts[0];
      const cells = await page.locator(".sheet .table-row >> nth=0").locator(".cell").allTextContents();
      equal("its cells", [cells[0], cells[1], cells[2], cells[4], cells[5]], [row.key, row.agent, String(row.tokens), row.tier, row.backed ? "yes" : "no"]);
      return true;
    });
    await page.fill("#context-search", "no such thing");
    await until("none fit", async () => (await page.textContent(".contexts .count")) === `0 of ${entries} contexts`);
    equal("and none is drawn", await rowsIn(page).count(), 0);
    await context.close();
  });

  test("many rows: only those in sight are drawn", async () => {
    const many = Array.from({ length: 3000 }, (_, i) => ["SET", `many-${String(i).padStart(5, "0")}`, "x"]);
    await daemon.send(many);
    const { page, context } = await openTable(world);
    await page.fill("#context-search", "many-");
    await page.click(".head >> text=Key");
    await until("sorted by key", async () => (await firstKeys(page, 1))[0] === "many-00000");
    check("few are on the page", (await page.locator(".sheet .table-row").count()) < 60);
    // By the order it began with the first row was the same: the sorted table, which
    // begins at its top, may still be coming.
    const scrollTo = (top) => page.evaluate((to) => (document.querySelector(".scroller").scrollTop = to), top);
    await until("the middle is shown", async () => {
      await scrollTo(1500 * 34);
      return (await firstKeys(page, 20)).includes("many-01500");
    });
    await until("and the end", async () => {
      await scrollTo(1e9);
      return (await firstKeys(page, 60)).includes("many-02999");
    });
    check("still few", (await page.locator(".sheet .table-row").count()) < 60);
    await daemon.send([["DEL", ...many.map((command) => command[1])]]);
    await context.close();
  });

  test("the table by keys alone", async () => {
    const { page, context } = await openTable(world);
    await page.keyboard.press("/");
    equal("the search has the focus", await page.evaluate(() => document.activeElement.id), "context-search");
    await page.keyboard.type("coder");
    await until("ten fit", async () => /^10 of/.test(await page.textContent(".contexts .count")));
    await page.click(".head >> text=Key");
    await until("sorted", async () => (await firstKeys(page, 1))[0] === "context/coder/0");
    await page.focus("#contexts-grid");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowUp"]) await page.keyboard.press(key);
    await until("the row is lit", async () => (await page.textContent(".sheet .table-row.active .key")) === "context/coder/1");
    await until("and said", async () => {
      const id = await page.getAttribute("#contexts-grid", "aria-activedescendant");
      return id !== null && (await page.textContent(`#${id} .key`)) === "context/coder/1";
    });
    await page.keyboard.press("End");
    await until("the last", async () => (await page.textContent(".sheet .table-row.active .key")) === "context/coder/9");
    await page.keyboard.press("PageUp");
    await until("a page up", async () => (await page.textContent(".sheet .table-row.active .key")) !== "context/coder/9");
    await page.keyboard.press("PageDown");
    await until("and down again", async () => (await page.textContent(".sheet .table-row.active .key")) === "context/coder/9");
    await page.keyboard.press("Home");
    await until("the first", async () => (await page.textContent(".sheet .table-row.active .key")) === "context/coder/0");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog.context[open] .journey");
    equal("it opens", await page.textContent("#context-title"), "context/coder/0");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog.context[open]", { state: "detached" });
    await until("and the table has the focus again", async () => (await page.evaluate(() => document.activeElement.id)) === "contexts-grid");
    await context.close();
  });

  test("one context: facts, history, explain", async () => {
    const dropped = async () => (await (await daemon.ask("/api/v1/explain?key=context/tester/3")).json());
    // What is read comes up again; it may be below from what was tested before.
    const up = async () => {
      await daemon.send([["GET", "context/tester/3"]]);
      return (await dropped()).entry.tier === "device";
    };
    await until("it is in the device", up);
    await until("it was dropped from the device for an ask", async () => {
      await daemon.send([["SPILL.RECLAIM", String(20 << 20)]]);
      return (await dropped()).journey.some((p) => p.action === "drop" && p.reason === "ask");
    });
    await until("it came back", async () => (await up()) && (await dropped()).journey[0].action === "came");
    const { page, context } = await openTable(world);
    await page.fill("#context-search", "tester/3");
    await until("it is found", async () => /^1 of/.test(await page.textContent(".contexts .count")));
    // The panel is of the moment it was opened: of another one it is opened again.
    await until("it is as the daemon tells", async () => {
      // By its button: without a dialog Escape would clear the search.
      if (await page.locator("dialog.context[open]").count()) await page.click("dialog.context .close");
      await page.waitForSelector("dialog.context[open]", { state: "detached" });
      await openRow(page);
      await page.waitForSelector("dialog.context .journey li.came", { timeout: 10_000 });
      const told = await dropped();
      const lines = await page.locator(".journey li").allTextContents();
      equal("each transition is a line, and now", lines.length, told.journey.length + 1);
      check("it was dropped, and why", lines.some((l) => /Dropped from device – ask: another process asked for memory/.test(l)), lines);
      check("it came up", /Copied up from host to device/.test(lines.at(-2)), lines);
      check("it is there", /In device/.test(lines.at(-1)), lines);
      const explain = await page.textContent(".explain");
      // Idle times go on; the rest is the same.
      const still = (text) => text.replace(/[\d.]+ s/g, "");
      check("explain is the daemon's own", still(explain).startsWith(still(told.explain).split("\n")[0]), { explain, now: told.explain });
      return true;
    });
    await context.close();
  });

  test("hostile keys are text, shortened, and copied whole", async () => {
    const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
    const binary = Buffer.alloc(65_534);
    for (let i = 0; i < binary.length; i++) binary[i] = (i * 7 + (i >> 8)) & 255;
    binary.write("hostile-binary");
    const agent = `<b onmouseover=alert(1)>`;
    await daemon.send([["SPILL.SET", markup, "v", "TOKENS", 1, "AGENT", agent], ["SET", binary, "v"]]);
    const { page, context, errors } = await openTable(world, { permissions: ["clipboard-read", "clipboard-write"] });
    await page.fill("#context-search", "onerror");
    await until("it is found, as text", async () => /^1 of/.test(await page.textContent(".contexts .count")) && (await firstKeys(page, 1))[0]?.startsWith("<img src=x"));
    equal("no element came of it", await page.locator(".sheet img, .sheet script, .sheet b").count(), 0);
    await openRow(page);
    await page.waitForSelector(".journey");
    equal("nor in its panel", await page.locator("dialog img, dialog script").count(), 0);
    await page.click("text=Copy the key");
    await until("it is copied", async () => (await page.evaluate(() => navigator.clipboard.readText())) === markup);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog.context[open]", { state: "detached" });
    await page.fill("#context-search", "hostile-binary");
    await until("the large one is found", async () => (await firstKeys(page, 1))[0]?.startsWith("hostile-binary"));
    check("it is short", (await firstKeys(page, 1))[0].length < 100);
    await openRow(page);
    await page.waitForSelector(".journey");
    check("its length is said", /65,534 bytes/.test(await page.textContent("dialog.context .note")));
    await page.click("text=Copy the key, as hex");
    await until("all of it is copied", async () => (await page.evaluate(() => navigator.clipboard.readText())) === binary.toString("hex"));
    await page.keyboard.press("Escape");
    await daemon.send([["DEL", markup, binary]]);
    await page.goto(daemon.url + "/#events");
    await until("it is in the log, as text", async () => (await page.textContent(".log summary >> nth=0")).includes("2 contexts"));
    await page.click(".log summary >> nth=0");
    await until("with its key", async () => (await page.textContent(".log .keys")).includes("<img src=x"));
    equal("and no element", await page.locator(".log img").count(), 0);
    check("nobody is owned", !(await page.title()).includes("owned"));
    equal("no rule was broken", errors, []);
    await context.close();
  });
}
