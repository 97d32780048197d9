// SPDX-License-Identifier: Apache-2.0
// pictures.mjs SPILLWAYD FOLDER: every view in light and dark, of the demo as it runs.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { live, openBrowser, openPage } from "./browser.mjs";
import { Daemon, freePort, until, wait } from "./daemon.mjs";

const [program, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const port = await freePort();
const words = ["--for", "5min", "--http-port", String(port), "--device", "cpu", "--spillwayd", program];
const demo = spawn("python3", [join(import.meta.dirname, "../../examples/demo"), ...words], { stdio: "ignore" });
const url = `http://127.0.0.1:${port}/`;
await until("the demo answers", async () => (await fetch(`${url}readyz`)).ok);
const browser = await openBrowser();
const pages = {};
for (const colorScheme of ["light", "dark"]) {
  pages[colorScheme] = await openPage(browser, url, { colorScheme, deviceScaleFactor: 1 });
}

async function picture(name, view, act) {
  for (const [theme, { page }] of Object.entries(pages)) {
    await page.bringToFront();
    await page.goto(`${page.url().split("#")[0]}#${view}`);
    await act?.(page);
    await wait(400);
    await page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
    await page.keyboard.press("Escape");
  }
}

// A stranger takes half of the card; a little later the chart has its arrival.
await until(
  "a stranger has memory of the card",
  async () => {
    const line = (await (await fetch(`${url}metrics`)).text()).split("\n").find((each) => each.startsWith('spillway_tier_other_processes_bytes{tier="device"}'));
    return Number(line?.split(" ")[1]) > 100e6;
  },
  180_000,
);
await wait(6000);
await picture("overview", "overview");
{
  const { page, context } = await openPage(browser, url, { colorScheme: "light", viewport: { width: 320, height: 720 }, deviceScaleFactor: 2 });
  await live(page);
  await wait(1500);
  await page.screenshot({ path: join(folder, "dashboard-phone-light.png") });
  await context.close();
}
await picture("steps", "steps", (page) => page.waitForSelector('g.step[data-state="running"]'));
await picture("contexts", "contexts", (page) => page.waitForSelector(".table-row:not(.head):not(.waiting)"));
await picture("context", "contexts", async (page) => {
  // The table is read anew every two seconds, and the demo kills its daemon: then once more.
  await until("a context with its history", async () => {
    await page.keyboard.press("Escape");
    await page.locator(".sheet .table-row:not(.waiting)").nth(2).click({ timeout: 5000 });
    await page.waitForSelector(".journey", { timeout: 5000 });
    return true;
  });
});
await picture("events", "events");
demo.kill("SIGINT");
await new Promise((resolve) => demo.on("exit", resolve));
for (const { page } of Object.values(pages)) await page.waitForSelector('.dot[data-state="lost"]');
await picture("gone", "overview", () => wait(1500));

// A shared card without a tier below: what does not fit is destroyed.
const card = `pictures-${process.pid}`;
const small = await new Daemon(program, { settings: `card = "${card}"\ncapacity = "32MiB"\nreserve = 0.0` }).start();
const neighbour = spawn(join(dirname(program), "spillway"), ["squeeze", "16MiB", "--card", card, "--for", "30s"], { stdio: "ignore" });
await small.send(Array.from({ length: 48 }, (_, n) => ["SPILL.SET", `context:agent-${n}`, Buffer.alloc(1_000_000, n), "TOKENS", 8]));
{
  const { page, context } = await openPage(browser, `${small.url}/`, { colorScheme: "dark", deviceScaleFactor: 1 });
  await page.waitForSelector("#tile-destroyed-link:visible");
  await page.waitForSelector(`.processes tr[data-pid="${neighbour.pid}"]`);
  for (let i = 0; i < 5; i++) {
    await small.send(Array.from({ length: 48 }, (_, n) => ["GET", `context:agent-${n}`]));
    await wait(400);
  }
  await page.screenshot({ path: join(folder, "dashboard-loss-dark.png"), fullPage: true });
  await context.close();
}
neighbour.kill("SIGTERM");
await small.close();

const locked = await new Daemon(program, { settings: 'capacity = "64MiB"', password: "open sesame" }).start();
await locked.send([["SPILL.SET", "context:planner", "x".repeat(9000), "TOKENS", 512]]);
for (const { page } of Object.values(pages)) await page.goto(`${locked.url}/`);
await picture("login", "overview", (page) => page.waitForSelector("#password:visible"));
await picture("controls", "controls", async (page) => {
  await page.fill("#password", "open sesame");
  await page.keyboard.press("Enter");
  await page.click("text=Reclaim …");
  await page.click("dialog >> text=Reclaim >> nth=-1");
  await page.waitForSelector(".result.good, .result.bad");
});
await browser.close();
await locked.close();
// A quarter of the bytes, where pngquant is installed.
for (const name of readdirSync(folder).filter((each) => each.endsWith(".png"))) {
  spawnSync("pngquant", ["--force", "--skip-if-larger", "--output", join(folder, name), "64", join(folder, name)]);
}
