// The panels of the side, in the order of their tabs; on narrow screens the canvas is one more.

export const PANELS = ["chat", "review", "automations", "agents", "threads"];
