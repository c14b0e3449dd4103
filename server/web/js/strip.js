// A strip of facts side by side: what is asked, and its answer in a tone of its own.

import { h } from "./dom.js";

// `facts`: `[{label, tone, text}]`; a tone is plain, good, warn, bad or live.
export function createStrip(facts) {
  return h("dl.auto-three", facts.map(({ label, tone, text }) => h("div", h("dt", label), h("dd", { class: `is-${tone}` }, text))));
}
