// SPDX-License-Identifier: Apache-2.0
// A view: an element that shows what the store knows while it is visible.
export interface View {
  readonly element: HTMLElement;
  // It becomes visible, or is hidden.
  shown(): void;
  hidden(): void;
  // Something changed. Called at most once a frame, and only while it is visible.
  update(): void;
}
