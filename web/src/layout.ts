// SPDX-License-Identifier: Apache-2.0
// Where steps are drawn: each one layer after the last of the steps it depends on, in the order
// they were added. Back edges do not affect the layers.
import type { Run } from "./types";

export interface Place {
  x: number; // Layer.
  y: number; // Position within the layer.
}
export interface Layout {
  places: Place[];
  layers: number;
  rows: number;
}

export function layoutOf(run: Run): Layout {
  const count = run.steps.length;
  const after: number[][] = Array.from({ length: count }, () => []);
  const waits = new Array<number>(count).fill(0);
  for (const edge of run.edges) {
    if (edge.kind === "back" || edge.from === edge.to) continue;
    after[edge.from]!.push(edge.to);
    waits[edge.to]!++;
  }
  const layer = new Array<number>(count).fill(0);
  const ready = waits.flatMap((n, i) => (n === 0 ? [i] : []));
  // Steps that depend on each other keep their places.
  for (let i = 0; i < ready.length; i++) {
    for (const next of after[ready[i]!]!) {
      layer[next] = Math.max(layer[next]!, layer[ready[i]!]! + 1);
      if (--waits[next]! === 0) ready.push(next);
    }
  }
  const filled: number[] = [];
  const places = layer.map((x) => {
    const y = filled[x] ?? 0;
    filled[x] = y + 1;
    return { x, y };
  });
  const rows = Math.max(1, ...filled.filter((n) => n !== undefined));
  // Centres each layer.
  for (const place of places) place.y += (rows - filled[place.x]!) / 2;
  return { places, layers: Math.max(1, filled.length), rows };
}
