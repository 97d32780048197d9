// SPDX-License-Identifier: Apache-2.0
// The dashboard: one stream, one store, and five views of which one is shown.
import "uplot/dist/uPlot.min.css";
import "./styles/theme.css";
import "./styles/base.css";
import "./styles/overview.css";
import "./styles/tables.css";
import { get } from "./api";
import { h, setAttr, setText } from "./dom";
import * as format from "./format";
import { Live } from "./live";
import { Store } from "./store";
import * as theme from "./theme";
import type { Event } from "./types";
import { Contexts } from "./views/contexts";
import { Controls } from "./views/controls";
import { help } from "./views/dialogs";
import { Events } from "./views/events";
import { Login } from "./views/login";
import { Overview } from "./views/overview";
import { StatusBar } from "./views/status";
import { Steps } from "./views/steps";
import type { View } from "./views/view";

const store = new Store();
const overview = new Overview(store);
const contexts = new Contexts(store);
const events = new Events(store);
const views: Record<string, { title: string; view: View }> = {
  overview: { title: "Overview", view: overview },
  contexts: { title: "Contexts", view: contexts },
  steps: { title: "Steps", view: new Steps() },
  events: { title: "Events", view: events },
  controls: { title: "Controls", view: new Controls(store) },
};
const names = Object.keys(views);
let shown = "";
let pastLoaded = false;
// Event numbers start again with each daemon; together with its start time they are unique.
const idOf = (event: Event): string => `${event.number} ${event.unix_ms}`;
// Events fetched as history: the stream may send them again.
let past = new Set<string>();

const status = new StatusBar(store);
const live = new Live({
  state: (state) => {
    const before = store.state;
    if (before && before.started_unix_ms !== state.started_unix_ms) store.forgetCounts();
    store.setState(state);
    if (!pastLoaded) void loadPast();
  },
  event: (event) => {
    if (!past.has(idOf(event))) store.addEvent(event);
  },
  passed: (count) => {
    store.passed += count;
  },
  connected: () => store.setConnection("live"),
  lost: (why) => {
    pastLoaded = false;
    store.setConnection(why.status === 401 ? "locked" : "lost", why.message);
  },
});
const login = new Login(() => live.start());

// Loads what was before the stream began: the history of the charts, and the latest events.
async function loadPast(): Promise<void> {
  pastLoaded = true;
  try {
    await store.loadHistory();
    store.pastKnown = true;
    const told = await get<{ events: Event[] }>("/api/v1/events?limit=1000");
    past = new Set(told.events.map(idOf));
    // The stream may have sent some of them already, and later ones: each is kept once, in order.
    const streamed = store.events.all().filter((event) => !past.has(idOf(event)));
    const all = [...told.events, ...streamed].sort((a, b) => a.unix_ms - b.unix_ms || a.number - b.number);
    store.events.clear();
    for (const event of all) store.addEvent(event);
  } catch {
    pastLoaded = false; // Tried again with the next state.
  }
}

const link = (name: string): HTMLElement => h("a", { href: `#${name}`, "data-view": name }, views[name]!.title);
const nav = h("nav", { "aria-label": "Views" }, ...names.map(link));
const version = h("span", { class: "version" });
const where = h("span", { class: "where" });
const dot = h("span", { class: "dot", role: "status" });
const themeButton = h("button", { type: "button", class: "quiet", id: "theme", onclick: () => switchTheme() });
const helpButton = h("button", { type: "button", class: "quiet", "aria-label": "Keys", onclick: () => help() }, "?");
const main = h("main", { id: "main", tabindex: -1 });

function switchTheme(): void {
  labelTheme(theme.next());
  overview.redraw();
}

function labelTheme(name: string): void {
  themeButton.textContent = name === "system" ? "Auto" : name === "dark" ? "Dark" : "Light";
  themeButton.setAttribute("aria-label", `Colours: ${name}`);
}

function show(name: string): void {
  if (name === shown || !views[name]) return;
  if (shown) views[shown]!.view.hidden();
  shown = name;
  for (const each of nav.querySelectorAll("a")) {
    setAttr(each, "aria-current", each.dataset.view === name ? "page" : null);
  }
  main.replaceChildren(views[name]!.view.element);
  document.title = `${views[name]!.title} – Spillway`;
  views[name]!.view.shown();
}

function update(): void {
  const connection = store.connection;
  const locked = connection.state === "locked";
  login.show(locked);
  main.hidden = nav.hidden = status.element.hidden = locked;
  status.update();
  setAttr(dot, "data-state", connection.state);
  setText(dot, { live: "live", connecting: "connecting", lost: "no answer", locked: "locked" }[connection.state]);
  const state = store.state;
  setText(version, state ? `spillwayd ${state.version}` : "");
  const up = state?.started_unix_ms ? (store.now() - state.started_unix_ms) / 1000 : 0;
  setText(where, state?.machine ? `${state.machine}, up ${up < 60 ? `${Math.floor(up)} s` : format.duration(up)}` : "");
  views[shown]!.view.update();
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const types = target.closest("input, select, textarea") !== null;
  if (types || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const number = Number(event.key);
  if (number >= 1 && number <= names.length) location.hash = names[number - 1]!;
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") help();
  else if (event.key === "/") {
    event.preventDefault();
    if (shown !== "events") show("contexts");
    if (shown === "contexts") location.hash = "contexts";
    (shown === "events" ? events : contexts).focusSearch();
  }
}

theme.apply(theme.current());
labelTheme(theme.current());
document.getElementById("app")!.append(
  h("a", { class: "skip", href: "#main", onclick: (event: globalThis.Event) => (event.preventDefault(), main.focus()) }, "Skip to the content"),
  h("header", { class: "top" }, h("h1", {}, "Spillway"), nav, h("div", { class: "right" }, dot, where, version, themeButton, helpButton)),
  status.element,
  login.element,
  main,
);
function fromHash(): void {
  const [name = "", query = ""] = location.hash.slice(1).split("?");
  show(views[name] ? name : "overview");
  if (name === "events") events.ask(new URLSearchParams(query));
}
addEventListener("hashchange", fromHash);
addEventListener("keydown", onKey);
// A hidden page's timers stop: what it missed is fetched.
addEventListener("visibilitychange", () => {
  if (!document.hidden && store.state) void store.loadHistory().catch(() => undefined);
});
fromHash();
store.onChange(update);
setInterval(() => {
  store.sample();
  if (!document.hidden) store.changed();
}, 100);
live.start();
update();
