// SPDX-License-Identifier: Apache-2.0
// Rows of numbers, of which the last ones are kept. Memory is allocated once, however long a page
// is open.

export class Ring {
  private readonly columns: Float64Array[];
  private written = 0;

  constructor(
    readonly width: number,
    readonly kept: number,
  ) {
    this.columns = Array.from({ length: width }, () => new Float64Array(kept));
  }

  get length(): number {
    return Math.min(this.written, this.kept);
  }

  push(row: ArrayLike<number>): void {
    const at = this.written++ % this.kept;
    for (let i = 0; i < this.width; i++) this.columns[i]![at] = row[i] ?? NaN;
  }

  clear(): void {
    this.written = 0;
  }

  // Column `i` of the row that is `back` rows before the latest (0: the latest).
  at(i: number, back: number): number {
    return this.columns[i]![(this.written - 1 - back) % this.kept] ?? NaN;
  }

  // Column `i` from the oldest to the latest of those whose column 0 is at least `from`.
  column(i: number, from: number): number[] {
    const out: number[] = [];
    for (let back = this.length - 1; back >= 0; back--) {
      if (this.at(0, back) >= from) out.push(this.at(i, back));
    }
    return out;
  }
}

// The last items of anything.
export class Last<T> {
  private items: T[] = [];

  constructor(readonly kept: number) {}

  push(item: T): void {
    this.items.push(item);
    // Rarely, and many at a time.
    if (this.items.length > this.kept * 1.25) this.items = this.items.slice(-this.kept);
  }

  clear(): void {
    this.items = [];
  }

  all(): readonly T[] {
    return this.items.length > this.kept ? this.items.slice(-this.kept) : this.items;
  }
}
