// SPDX-License-Identifier: Apache-2.0
// Modal dialogs: they hold the focus until they are answered, and then return it. Escape means no.
import { h } from "../dom";

function show(dialog: HTMLDialogElement): void {
  const before = document.activeElement as HTMLElement | null;
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

export interface Question {
  title: string;
  text: string;
  detail?: string;
  yes: string;
  danger?: boolean;
  // What is done. It returns the text to show; it may fail.
  act(): Promise<string>;
}

// Asks, runs the action, and shows its result.
export function confirm(question: Question): void {
  const result = h("p", { class: "result", role: "status" });
  const yes = h("button", { type: "button", class: question.danger ? "danger" : "primary" }, question.yes);
  const no = h("button", { type: "button" }, "Cancel");
  const dialog = h(
    "dialog",
    { class: "confirm", "aria-labelledby": "confirm-title" },
    h("h2", { id: "confirm-title" }, question.title),
    h("p", {}, question.text),
    question.detail ? h("p", { class: "detail" }, h("code", {}, question.detail)) : null,
    result,
    h("div", { class: "buttons" }, no, yes),
  );
  no.addEventListener("click", () => dialog.close());
  yes.addEventListener("click", () => {
    yes.disabled = true;
    result.textContent = "In progress …";
    question
      .act()
      .then((text) => finish(text, "good"))
      .catch((error: Error) => finish(`It failed: ${error.message}`, "bad"));
  });
  const finish = (text: string, kind: string): void => {
    result.textContent = text;
    result.classList.add(kind);
    yes.remove();
    no.textContent = "Close";
    no.focus();
  };
  show(dialog);
  no.focus();
}

export function help(): void {
  const rows: [string, string][] = [
    ["1 … 5", "overview, contexts, steps, events, controls"],
    ["/", "search contexts (in events: events)"],
    ["↑ ↓ Page Home End", "move in the table of contexts; Enter opens one"],
    ["t", "light, dark, or as the system has it"],
    ["Esc", "close what is open"],
    ["?", "this list"],
  ];
  const close = h("button", { type: "button" }, "Close");
  const dialog = h(
    "dialog",
    { class: "confirm", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", { class: "keys-help" }, ...rows.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h("div", { class: "buttons" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  show(dialog);
}
