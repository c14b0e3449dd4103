// The panels of the side, in the order of their tabs; on narrow screens the canvas is one more.

import { mayEdit } from "./roles.js";

export const PANELS = ["chat", "review", "automations", "agents", "calls", "threads"];

// Those of a person: who may only look neither reads calls nor makes them.
export const panelsFor = (me) => PANELS.filter((name) => name !== "calls" || mayEdit(me));
