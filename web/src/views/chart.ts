// SPDX-License-Identifier: Apache-2.0
// One tier over time. Everything below the black line is pressure (other processes' memory and our
// dirty memory). Everything above it could be had at once: our clean memory, free memory, the
// reserve. The background shows the level.
import uPlot from "uplot";
import { h } from "../dom";
import * as format from "../format";
import { COLUMN, type Store } from "../store";
import { LEVELS, type Tier, type TierName } from "../types";
import { levelName } from "../words";

const SPAN_MIN = 20; // Seconds.
const LAST_HOLDS = 1.5; // Seconds.
const RIBBON = 8; // Pixels of the strip of levels on top.

interface Ink {
  [name: string]: string;
}

function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const ink: Ink = {};
  for (const name of ["others", "unbacked", "backed", "free", "line", "grid", "muted", ...LEVELS]) {
    ink[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return ink;
}

export class TierChart {
  readonly element: HTMLElement;
  private readonly box = h("div", { class: "plot" });
  private plot: uPlot | undefined;
  private ink: Ink = {};
  private levels: number[] = [];
  private total = 1;
  private drawnAt = 0;
  private readonly resize = new ResizeObserver(() => this.fit());

  constructor(
    private readonly store: Store,
    readonly tier: TierName,
    private readonly height: number,
    private readonly span: () => number,
  ) {
    this.element = h("div", { class: "chart", role: "img", "aria-label": `${tier}: no data yet` }, this.box);
    this.resize.observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  rebuild(): void {
    this.plot?.destroy();
    this.plot = undefined;
    this.drawnAt = 0;
    this.update();
  }

  update(): void {
    const state = this.store.state?.[this.tier];
    if (!state || this.box.clientWidth === 0) return;
    const span = this.span();
    const now = performance.now();
    if (now - this.drawnAt < (span <= 120 ? 190 : 990)) return;
    this.drawnAt = now;
    this.total = Math.max(1, this.limitOf(state));
    const data = this.data(span);
    this.plot ??= this.build(data);
    this.plot.setData(data, false);
    const end = this.store.now() / 1000;
    // If there is less data than requested, it fills the width.
    const first = data[0][0] ?? end;
    const min = Math.max(end - span, Math.min(first, end - SPAN_MIN));
    this.plot.batch(() => {
      this.plot!.setScale("x", { min, max: end });
      this.plot!.setScale("y", { min: 0, max: this.total });
    });
    this.describe();
  }

  // The device is shown whole, with what other processes hold. A lower tier is shown as far as its
  // capacity: it is a part of a machine's memory or of a file system that may be much larger.
  private limitOf(tier: Tier): number {
    return this.tier === "device" || tier.capacity === 0 ? tier.total : Math.min(tier.capacity, tier.total);
  }
  private get partial(): boolean {
    const tier = this.store.state?.[this.tier];
    return tier !== undefined && this.limitOf(tier) < tier.total;
  }

  private data(span: number): uPlot.AlignedData {
    const series = this.store.seriesOf(this.tier);
    const ring = span <= 120 ? series.fine : series.coarse;
    const from = this.store.now() / 1000 - span;
    const column = (i: number): number[] => ring.column(i, from);
    const time = column(COLUMN.time);
    this.levels = column(COLUMN.level);
    const partial = this.partial;
    const others = column(COLUMN.others).map((v) => (partial ? 0 : v));
    const unbacked = column(COLUMN.unbacked).map((v, i) => v + others[i]!);
    const backed = column(COLUMN.backed).map((v, i) => v + unbacked[i]!);
    const reserve = column(COLUMN.reserve).map((v) => this.total - (partial ? 0 : v));
    const top = time.map(() => this.total);
    const pressure = column(COLUMN.pressure).map((v) => (Number.isNaN(v) ? null : v * this.total));
    return [time, others, unbacked, backed, reserve, top, pressure] as uPlot.AlignedData;
  }

  private build(data: uPlot.AlignedData): uPlot {
    this.ink = inkOf(this.element);
    const ink = this.ink;
    const flat = (label: string): uPlot.Series => ({ label, width: 0, points: { show: false } });
    const fill = (upper: number, lower: number, color: string): uPlot.Band => ({
      series: [upper, lower],
      fill: color,
    });
    const thresholds = this.store.state!.thresholds;
    const marks = [thresholds.normal, thresholds.pressure, thresholds.critical, thresholds.emergency];
    const axis = { stroke: ink.muted!, font: "11px system-ui", ticks: { show: false } };
    const options: uPlot.Options = {
      width: this.box.clientWidth,
      height: this.height,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      padding: [RIBBON + 6, 0, 0, 0],
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      series: [
        {},
        { ...flat("other processes"), fill: ink.others! },
        flat("dirty"),
        flat("clean"),
        flat("free"),
        flat("reserve"),
        { label: "pressure", stroke: ink.line!, width: 1.75, points: { show: false } },
      ],
      bands: [
        fill(2, 1, ink.unbacked!),
        fill(3, 2, ink.backed!),
        { series: [5, 4], fill: (u: uPlot) => hatch(u.ctx, ink.muted!) as unknown as string },
      ],
      axes: [
        { ...axis, size: 26, space: 90, grid: { show: false }, values: (_u, splits) => splits.map((s) => timeLabel(s)) },
        {
          ...axis,
          size: 62,
          grid: { show: false },
          splits: () => [0, 0.25, 0.5, 0.75, 1].map((part) => part * this.total),
          values: (_u, splits) => splits.map((v) => format.bytes(v)),
        },
        {
          ...axis,
          side: 1,
          size: 40,
          scale: "y",
          grid: { stroke: ink.grid!, width: 1, dash: [3, 4] },
          splits: () => marks.map((mark) => mark * this.total),
          values: (_u, splits) => this.marksText(splits),
        },
      ],
      hooks: { drawClear: [(u) => this.drawLevels(u)] },
    };
    return new uPlot(options, data, this.box);
  }

  // From the top: a line whose label would overlap the previous one gets no label.
  private marksText(splits: number[]): string[] {
    const perLabel = (13 / Math.max(1, this.height - 60)) * this.total;
    let last = Infinity;
    const texts = [...splits].reverse().map((value) => {
      if (last - value < perLabel) return "";
      last = value;
      return `${Math.round((value / this.total) * 100)} %`;
    });
    return texts.reverse();
  }

  // The level over time: a strip on top, and a faint background.
  private drawLevels(u: uPlot): void {
    const { ctx, bbox } = u;
    const time = u.data[0];
    const ratio = devicePixelRatio;
    ctx.save();
    for (let i = 0; i < time.length; ) {
      let end = i;
      while (end + 1 < time.length && this.levels[end + 1] === this.levels[i]) end++;
      const left = u.valToPos(time[i]!, "x", true);
      // The last sample is valid until the next one is due; nothing is known after that.
      const right = u.valToPos(time[end + 1] ?? time[end]! + LAST_HOLDS, "x", true);
      // In whole pixels, so that even a very short level is visible.
      const from = Math.floor(Math.max(left, bbox.left));
      const width = Math.max(1, Math.ceil(Math.min(right, bbox.left + bbox.width)) - from);
      ctx.fillStyle = this.ink[LEVELS[this.levels[i]!] ?? "relaxed"]!;
      ctx.globalAlpha = 1;
      ctx.fillRect(from, bbox.top - (RIBBON + 3) * ratio, width, RIBBON * ratio);
      ctx.globalAlpha = 0.22;
      ctx.fillRect(from, bbox.top, width, bbox.height);
      i = end + 1;
    }
    ctx.restore();
  }

  private fit(): void {
    if (this.box.clientWidth > 0) this.plot?.setSize({ width: this.box.clientWidth, height: this.height });
  }

  private describe(): void {
    const tier = this.store.state![this.tier]!;
    const pressure = tier.pressure == null ? "unknown" : format.percent(tier.pressure);
    const text = `${this.tier}: pressure ${pressure}, level ${levelName(tier.level)}, ${format.bytes(tier.free)} free of ${format.bytes(tier.total)}${this.partial ? `, ${format.bytes(tier.bytes)} held of a capacity of ${format.bytes(tier.capacity)}` : ""}`;
    if (this.element.getAttribute("aria-label") !== text) this.element.setAttribute("aria-label", text);
  }
}

const timeLabel = (seconds: number): string => format.clock(seconds * 1000).slice(0, 8);

let hatched: { color: string; pattern: CanvasPattern } | undefined;
function hatch(ctx: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  if (hatched?.color === color) return hatched.pattern;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  if (!pen) return color;
  pen.strokeStyle = color;
  pen.globalAlpha = 0.45;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
  }
  pen.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  if (!pattern) return color;
  hatched = { color, pattern };
  return pattern;
}
