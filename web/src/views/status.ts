// SPDX-License-Identifier: Apache-2.0
// The headline: the mode, since when, and what it means; and whether the daemon answers.
import { h, setAttr, setText } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { LEVEL_NAMES, MODE_MEANINGS, levelName } from "../words";

export class StatusBar {
  readonly element: HTMLElement;
  private readonly mode = h("strong", { class: "mode", "data-metric": "spillway_mode" });
  private readonly since = h("span", { class: "since" });
  private readonly meaning = h("p", { class: "meaning" });
  private readonly notice = h("div", { class: "notice", role: "alert", hidden: true });

  constructor(private readonly store: Store) {
    this.element = h(
      "section",
      { class: "status", "aria-label": "Mode" },
      this.notice,
      h("div", { class: "headline", "aria-live": "polite" }, this.mode, this.since),
      this.meaning,
    );
  }

  update(): void {
    this.updateNotice();
    const state = this.store.state;
    if (!state) return;
    const top = state.device ?? state.host ?? state.disk;
    setText(this.mode, LEVEL_NAMES[state.mode]);
    setAttr(this.mode, "data-value", state.mode);
    setAttr(this.element, "data-level", top?.level ?? null);
    if (top) {
      const known = top.pressure != null;
      const pressure = known ? `pressure ${format.percent(top.pressure!)}` : "pressure unknown";
      const seconds = (this.store.now() - top.level_since_unix_ms) / 1000;
      const since = `since ${format.clock(top.level_since_unix_ms)} (${spoken(seconds)})`;
      const level = state.mode === "workflow_aware" ? `level ${levelName(top.level)}, ` : "";
      setText(this.since, `${level}${pressure}, ${since}`);
    }
    const blocked = state.blocked ? " Sets are refused now." : "";
    const loading = state.loading ? " The disk tier is still reading its files." : "";
    const unknown = top && top.pressure == null ? "No pressure source answers, so the device tier does not grow." : "";
    setText(this.meaning, `${unknown || MODE_MEANINGS[state.mode]}${blocked}${loading}`);
  }

  private updateNotice(): void {
    const { state, since, why } = this.store.connection;
    const version = this.store.state?.version;
    const outdated = version !== undefined && version !== this.store.firstVersion;
    setAttr(this.element, "data-connection", state);
    this.notice.hidden = state === "live" || state === "locked" ? !outdated : false;
    if (this.notice.hidden) return;
    if (state === "lost" || state === "connecting") {
      const gone = (Date.now() - since) / 1000;
      const text =
        state === "connecting"
          ? "Connecting to the daemon"
          : `The daemon has not answered since ${format.clock(since)} (${spoken(gone)}): ${why}. What is shown is from before; trying again.`;
      setText(this.notice, text);
      return;
    }
    const text = `The daemon is version ${version} now; this page is from ${this.store.firstVersion}.`;
    if (this.notice.firstChild?.textContent === text) return;
    const reload = h("button", { type: "button", onclick: () => location.reload() }, "Reload the page");
    this.notice.replaceChildren(h("span", {}, text), reload);
  }
}

// Whole seconds are precise enough to read.
function spoken(seconds: number): string {
  return seconds < 60 ? `${Math.max(0, Math.floor(seconds))} s` : format.duration(seconds);
}
