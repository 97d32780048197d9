// A view: an element that shows what the store knows, while it is the one looked at.
export interface View {
  readonly element: HTMLElement;
  // It is looked at from now on; or no longer.
  shown(): void;
  hidden(): void;
  // Something changed; called at most once a frame, and only while it is shown.
  update(): void;
}
