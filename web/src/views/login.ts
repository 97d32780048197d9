// SPDX-License-Identifier: Apache-2.0
// Asks for the password if the daemon requires one. It stays in this tab.
import { ApiError, ask, setPassword } from "../api";
import { h } from "../dom";

export class Login {
  readonly element: HTMLElement;
  private readonly word = h("input", { type: "password", id: "password", autocomplete: "current-password", required: true });
  private readonly error = h("p", { class: "error", role: "alert" });

  constructor(private readonly done: () => void) {
    const form = h(
      "form",
      { class: "login panel", "aria-labelledby": "login-title" },
      h("h2", { id: "login-title" }, "This daemon requires its password"),
      h("p", {}, "The one of its settings (password or password_file). It is kept in this tab only."),
      h("label", { for: "password" }, "Password"),
      this.word,
      this.error,
      h("button", { type: "submit", class: "primary" }, "Open"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
    this.element = h("div", { class: "login-page", hidden: true }, form);
  }

  show(on: boolean): void {
    if (this.element.hidden === !on) return;
    this.element.hidden = !on;
    if (on) this.word.focus();
  }

  private async submit(): Promise<void> {
    setPassword(this.word.value);
    try {
      await ask("/api/v1");
      this.word.value = "";
      this.error.textContent = "";
      this.done();
    } catch (error) {
      setPassword("");
      const wrong = error instanceof ApiError && error.status === 401;
      this.error.textContent = wrong ? "Wrong password." : `It could not be tried: ${(error as Error).message}`;
      this.word.select();
    }
  }
}
