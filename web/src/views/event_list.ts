// SPDX-License-Identifier: Apache-2.0
// Events, newest first. Many events with one reason at the same time are one line, which can be
// opened.
import { h, replace } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { type Event, type Left, isLeft } from "../types";
import { ACTIONS, levelName, reasonText } from "../words";

const TOGETHER_MS = 2000;
const KEYS_SHOWN = 50;
const WANTED = ["erased", "replaced", "cleared"]; // By clients: these are no loss.

export interface Filter {
  text: string;
  kind: string; // "", "level", or an action.
  reason: string;
  tier: string;
}
export const NO_FILTER: Filter = { text: "", kind: "", reason: "", tier: "" };

interface Group {
  first: Event;
  last: Event;
  all: Left[]; // Empty: a change of level.
  bytes: number;
}

// What clients erased is not destroyed.
const kindOf = (event: Left): string => (WANTED.includes(event.reason) && event.action !== "back" ? "erase" : event.action);

export function matches(event: Event, filter: Filter): boolean {
  if (filter.tier && event.tier !== filter.tier) return false;
  if (!isLeft(event)) {
    return (filter.kind === "" || filter.kind === "level") && !filter.reason && !filter.text;
  }
  if (filter.kind && kindOf(event) !== filter.kind) return false;
  if (filter.reason && event.reason !== filter.reason) return false;
  return !filter.text || event.key.includes(filter.text);
}

// Events of different kinds at the same time are separate groups, whatever their order.
function joins(group: Group, event: Left): boolean {
  const before = group.all[group.all.length - 1];
  return (
    before !== undefined &&
    before.tier === event.tier &&
    before.action === event.action &&
    before.reason === event.reason &&
    before.level === event.level &&
    before.unix_ms - event.unix_ms < TOGETHER_MS
  );
}

// From the newest back, up to a number of groups.
function groupsOf(events: readonly Event[], filter: Filter, most: number): Group[] {
  const groups: Group[] = [];
  for (let i = events.length - 1; i >= 0; i--) {
    const event = events[i]!;
    if (!matches(event, filter)) continue;
    const group = isLeft(event) ? groups.findLast((each) => joins(each, event)) : undefined;
    if (group && isLeft(event)) {
      group.all.push(event);
      group.first = event;
      group.bytes += event.bytes;
      continue;
    }
    if (groups.length === most) break;
    groups.push({ first: event, last: event, all: isLeft(event) ? [event] : [], bytes: isLeft(event) ? event.bytes : 0 });
  }
  return groups;
}

export class EventList {
  readonly element = h("ol", { class: "events", tabindex: 0, "aria-label": "Events" });
  filter: Filter = NO_FILTER;
  private seen = "";
  private readonly open = new Set<number>(); // By the number of a group's first event.

  constructor(
    private readonly store: Store,
    private readonly options: { most: number; brief: boolean },
  ) {}

  update(): void {
    const seen = `${this.store.eventsVersion} ${JSON.stringify(this.filter)}`;
    if (seen === this.seen) return;
    this.seen = seen;
    const groups = groupsOf(this.store.events.all(), this.filter, this.options.most);
    if (groups.length === 0) {
      const nothing = this.filter === NO_FILTER ? "Nothing was evicted and no level has changed since this page was opened." : "No event fits.";
      replace(this.element, h("li", { class: "nothing" }, nothing));
      return;
    }
    replace(this.element, ...groups.map((group) => this.line(group)));
  }

  private line(group: Group): HTMLElement {
    const time = h("time", {}, format.clock(group.last.unix_ms));
    const last = group.last;
    if (!isLeft(last)) {
      const rise = h("span", { class: "level", "data-level": last.level }, levelName(last.level));
      const text = `${last.tier}: from ${levelName(last.from)}, pressure ${format.percent(last.pressure)}`;
      return h("li", { class: "change", "data-number": last.number }, time, rise, h("span", { class: "what" }, text));
    }
    const many = group.all.length > 1;
    const wanted = WANTED.includes(last.reason);
    const verb = h("span", { class: `action ${wanted ? "wanted" : last.action}` }, wanted ? last.reason : (ACTIONS[last.action] ?? last.action));
    const count = `${format.count(group.all.length)}${this.options.brief ? "" : " contexts"}`;
    const subject = many ? count : format.shorten(last.key, this.options.brief ? 28 : 64);
    const where = ` ${last.action === "back" ? "in" : "from"} ${last.tier}`;
    const what = h("span", { class: "what" }, h("b", {}, subject), where);
    const why = h("span", { class: "why" }, `${last.reason}: ${reasonText(last.action, last.reason)}`);
    const size = h("span", { class: "size" }, format.bytes(group.bytes));
    const level = this.options.brief ? null : h("span", { class: "level", "data-level": last.level }, levelName(last.level));
    const row = [time, verb, what, why, size, level];
    if (!many || this.options.brief) return h("li", { "data-number": group.first.number }, ...row);
    return h("li", { "data-number": group.first.number }, this.details(group, row));
  }

  private details(group: Group, row: (HTMLElement | null)[]): HTMLElement {
    const number = group.first.number;
    const keys = group.all.slice(0, KEYS_SHOWN).map((each) =>
      h("li", {}, h("code", {}, format.shorten(each.key, 100)), ` ${format.bytes(each.bytes)}, ${format.count(each.tokens)} tokens`),
    );
    const more = group.all.length - keys.length;
    return h(
      "details",
      {
        open: this.open.has(number),
        ontoggle: (event: globalThis.Event) => {
          if ((event.target as HTMLDetailsElement).open) this.open.add(number);
          else this.open.delete(number);
        },
      },
      h("summary", {}, ...row),
      h("ul", { class: "keys" }, ...keys, more > 0 ? h("li", {}, `and ${format.count(more)} more`) : null),
    );
  }
}
