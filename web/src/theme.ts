// SPDX-License-Identifier: Apache-2.0
// Light, dark, or the system's choice. Stored in the browser if possible.
type Theme = "system" | "light" | "dark";
const ORDER: Theme[] = ["system", "light", "dark"];
const STORED = "spillway-theme";

let chosen: Theme = "system"; // For browsers that store nothing.

function remembered(): string | null {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return chosen;
  }
}

export function current(): Theme {
  const stored = remembered() as Theme | null;
  return stored && ORDER.includes(stored) ? stored : "system";
}

export function apply(theme: Theme): void {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  chosen = theme;
  try {
    localStorage.setItem(STORED, theme);
  } catch {
    // Chosen again next time.
  }
}

export function next(): Theme {
  const theme = ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]!;
  apply(theme);
  return theme;
}
