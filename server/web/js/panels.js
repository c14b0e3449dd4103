// The panels of the side, in the order in which they are offered; on narrow screens the canvas is one more.

import { mayAdminister, mayEdit } from "./roles.js";

export const TABS = ["chat", "review"]; // by name; the others are pictures in the same row, and behind "More" on narrow screens
export const PANELS = [...TABS, "automations", "agents", "calls", "threads", "today", "settings"];

const MAY = { calls: mayEdit, settings: mayAdminister };

// Those of a person: what the service would refuse is left out.
export const panelsFor = (me) => PANELS.filter((name) => !MAY[name] || MAY[name](me));
