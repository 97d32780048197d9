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
  await page.goto(url);
  return { context, page, asked, errors };
}
