// SPDX-License-Identifier: Apache-2.0
// Debian's Chromium, without anything that would reach out of this machine.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PLACES = [process.env.SPILLWAY_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"];
export const browserPath = PLACES.find((path) => path && existsSync(path));

export function openBrowser() {
  return chromium.launch({
    executablePath: browserPath,
    timeout: 120_000,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--enable-precise-memory-info",
    ],
  });
}

// SLOW=8: a processor 8 times slower, and answers late by 8 times 40 ms. What a test reads before it
// is there is found so on any machine.
const SLOW = Number(process.env.SLOW ?? 1);

async function slowDown(context, page) {
  const session = await context.newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: SLOW });
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", { offline: false, latency: 40 * SLOW, downloadThroughput: -1, uploadThroughput: -1 });
}

// The stream is open and its first state is drawn. The dot turns first: until the state has come,
// fields are off and figures are empty whatever the daemon would say.
export async function live(page) {
  await page.waitForSelector('.dot[data-state="live"]');
  await page.waitForSelector(".version:not(:empty)", { state: "attached" });
}

// A page of its own, with all it asked for and all it complained about.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    ...options,
  });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const asked = [];
  const errors = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // A daemon that is gone, or says no, is what some tests are about.
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) {
      errors.push(message.text());
    }
  });
  if (SLOW > 1) await slowDown(context, page);
  await page.goto(url);
  return { context, page, asked, errors };
}
