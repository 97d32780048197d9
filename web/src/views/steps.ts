// SPDX-License-Identifier: Apache-2.0
// The steps of agents: which run, which are next, where their contexts are, and which contexts are
// being fetched.
import { get } from "../api";
import { h, replace, setText, svg } from "../dom";
import * as format from "../format";
import { type Place, layoutOf } from "../layout";
import type { AgentKeys, Graph, Run, Step } from "../types";
import type { View } from "./view";

const AGAIN_MS = 500;
const BOX = { w: 168, h: 62, dx: 56, dy: 20 };

const STATES: Record<Step["state"], string> = {
  pending: "waits",
  ready: "ready",
  running: "runs",
  done: "done",
  skipped: "skipped",
  failed: "failed",
};

function stateText(step: Step): string {
  if (step.state !== "pending" && step.state !== "ready") return STATES[step.state];
  if (step.state === "ready") return "next";
  return step.steps === undefined ? "will not run" : step.steps === 1 ? "next" : `in ${step.steps} steps`;
}

function whereText(keys: AgentKeys | undefined): string {
  if (!keys || keys.keys === 0) return "no contexts";
  const tiers = Object.entries(keys.tiers).map(([tier, n]) => `${n} ${tier}`);
  if (keys.gone > 0) tiers.push(`${keys.gone} not present`);
  return tiers.join(", ") || `${keys.keys} contexts`;
}

export class Steps implements View {
  readonly element: HTMLElement;
  private readonly summary = h("p", { class: "count", role: "status" });
  private readonly picker = h("select", { id: "run-picker", "aria-label": "Run" });
  private readonly canvas = h("div", { class: "graph", tabindex: 0, role: "group", "aria-label": "Steps" });
  private readonly moves = h("ul", { class: "moves" });
  private timer = 0;
  private drawn = "";
  private picked = "";

  constructor() {
    this.picker.addEventListener("change", () => {
      this.picked = this.picker.value;
      void this.load();
    });
    const legend = h(
      "ul",
      { class: "legend" },
      ...(["running", "next", "pending", "done"] as const).map((id) => h("li", {}, h("i", { class: `step-key ${id}` }), { running: "runs", next: "next", pending: "waits", done: "done" }[id])),
    );
    this.element = h(
      "section",
      { class: "panel steps", "aria-labelledby": "steps-title" },
      h("header", {}, h("h2", { id: "steps-title" }, "Steps"), legend, h("label", { class: "pick" }, h("span", {}, "Run"), this.picker)),
      this.summary,
      this.canvas,
      h("h3", {}, "Copies between tiers"),
      this.moves,
    );
  }

  shown(): void {
    void this.load();
    this.timer = window.setInterval(() => void this.load(), AGAIN_MS);
  }
  hidden(): void {
    clearInterval(this.timer);
  }
  update(): void {}

  private async load(): Promise<void> {
    if (document.hidden) return;
    try {
      this.draw(await get<Graph>("/api/v1/graph"));
    } catch (error) {
      setText(this.summary, `It could not be read: ${(error as Error).message}`);
    }
  }

  private draw(graph: Graph): void {
    const drawn = JSON.stringify([graph, this.picked]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.drawPicker(graph);
    this.drawMoves(graph);
    const run = graph.runs.find((each) => each.run === this.picked) ?? graph.runs[0];
    if (!run) {
      setText(this.summary, "No run is live. Agents report their steps by SPILL.GRAPH, or by the library's step graph.");
      replace(this.canvas);
      return;
    }
    const running = run.steps.filter((step) => step.state === "running").map((step) => step.id);
    const more = run.steps_more > 0 ? ` (${format.count(run.steps_more)} more are not drawn)` : "";
    const who = running.length > 0 ? `${running.slice(0, 4).join(", ")} ${running.length === 1 ? "runs" : "run"}` : "no step runs";
    setText(this.summary, `${graph.runs_live === 1 ? "1 run is" : `${format.count(graph.runs_live)} runs are`} live. ${run.run}: ${format.count(run.steps.length)} steps${more}; ${who}.`);
    replace(this.canvas, drawRun(run));
    this.follow(run);
  }

  // The running step is scrolled into view, unless the user navigates by keys.
  private follow(run: Run): void {
    const first = run.steps.findIndex((step) => step.state === "running");
    if (first < 0 || document.activeElement === this.canvas) return;
    const left = stepAt(layoutOf(run).places[first]!).x;
    const { scrollLeft, clientWidth } = this.canvas;
    if (left < scrollLeft || left + 2 * BOX.w > scrollLeft + clientWidth) {
      this.canvas.scrollLeft = Math.max(0, left - BOX.w - BOX.dx);
    }
  }

  private drawPicker(graph: Graph): void {
    const names = graph.runs.map((run) => run.run);
    if (!names.includes(this.picked)) this.picked = names[0] ?? "";
    if ([...this.picker.options].map((option) => option.value).join("\n") !== names.join("\n")) {
      replace(this.picker, ...names.map((name) => h("option", { value: name }, format.shorten(name, 40))));
    }
    this.picker.value = this.picked;
  }

  private drawMoves(graph: Graph): void {
    if (graph.moves.length === 0) return replace(this.moves, h("li", { class: "nothing" }, "No copies in flight."));
    const lines = graph.moves.slice(0, 12).map((move) => {
      const up = move.to === "device" || move.from === "disk";
      return h("li", {}, h("b", {}, up ? "fetched" : "copied down"), ` ${move.from} → ${move.to} `, h("code", {}, format.shorten(move.key, 60)), ` ${format.bytes(move.bytes)}`);
    });
    if (graph.moves.length > 12) lines.push(h("li", {}, `and ${graph.moves.length - 12} more`));
    return replace(this.moves, ...lines);
  }
}

function stepAt(place: Place): Place {
  return { x: 8 + place.x * (BOX.w + BOX.dx), y: 24 + place.y * (BOX.h + BOX.dy) };
}

function drawRun(run: Run): SVGElement {
  const { places, layers, rows } = layoutOf(run);
  const at = (i: number): Place => stepAt(places[i]!);
  const width = 16 + layers * BOX.w + (layers - 1) * BOX.dx;
  const height = 40 + rows * BOX.h + (rows - 1) * BOX.dy;
  const agents = new Map(run.agents.map((agent) => [agent.agent, agent]));
  const edges = run.edges.map((edge) => {
    const from = at(edge.from);
    const to = at(edge.to);
    const classes = `edge ${edge.kind}${edge.dead ? " dead" : ""}`;
    if (edge.kind === "back") {
      const top = Math.min(from.y, to.y) - 16;
      const d = `M${from.x + BOX.w / 2} ${from.y} C${from.x + BOX.w / 2} ${top}, ${to.x + BOX.w / 2} ${top}, ${to.x + BOX.w / 2} ${to.y}`;
      return svg("path", { class: classes, d, "marker-end": "url(#tip)" });
    }
    const x1 = from.x + BOX.w;
    const y1 = from.y + BOX.h / 2;
    const y2 = to.y + BOX.h / 2;
    const mid = BOX.dx / 2;
    return svg("path", { class: classes, d: `M${x1} ${y1} C${x1 + mid} ${y1}, ${to.x - mid} ${y2}, ${to.x - 4} ${y2}`, "marker-end": "url(#tip)" });
  });
  const boxes = run.steps.map((step, i) => drawStep(step, at(i), agents.get(step.agent)));
  const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", class: "tip" }));
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "list", "aria-label": `Steps of ${run.run}` }, svg("defs", {}, tip), ...edges, ...boxes);
}

function drawStep(step: Step, { x, y }: { x: number; y: number }, keys: AgentKeys | undefined): SVGElement {
  const text = stateText(step);
  const look = text === "next" ? "next" : step.state;
  const coming = keys && keys.coming > 0 ? `${keys.coming} being fetched` : "";
  const name = step.agent === step.id ? step.id : `${step.id} · ${step.agent}`;
  const label = `${step.id}, agent ${step.agent}: ${text}${step.visits > 1 ? `, visit ${step.visits}` : ""}; ${whereText(keys)}${coming ? `; ${coming}` : ""}`;
  return svg(
    "g",
    { class: `step ${look}`, transform: `translate(${x} ${y})`, role: "listitem", "aria-label": label, "data-step": step.id, "data-state": step.state },
    svg("title", {}, label),
    svg("rect", { width: BOX.w, height: BOX.h, rx: 8 }),
    svg("text", { x: 12, y: 20, class: "name" }, format.shorten(name, 22)),
    svg("text", { x: 12, y: 36, class: "state" }, text + (step.visits > 1 ? `, visit ${step.visits}` : "")),
    svg("text", { x: 12, y: 52, class: coming ? "where coming" : "where" }, coming || whereText(keys)),
  );
}
