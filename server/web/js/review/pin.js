// The button of a card that shows its proposal on the canvas, or hides it.

import { h } from "../dom.js";
import { ghostsOf } from "./ghosts.js";

const NARROW = matchMedia("(max-width: 760px)"); // there canvas and panels share one place

// Returns `element` and `draw()`, which says what it would do now.
export function createPin(app, approvalOf) {
  const ghosts = ghostsOf(app);
  const element = h("button", { type: "button", onclick: press });
  draw();
  return { element, draw };

  function draw() {
    const label = app.t(ghosts.isResting(approvalOf()) && !NARROW.matches ? "card.hide_canvas" : "card.show_canvas");
    if (element.textContent !== label) element.textContent = label;
  }

  async function press() {
    const approval = approvalOf();
    if (ghosts.isResting(approval) && !NARROW.matches) {
      ghosts.hide(approval);
      return;
    }
    if (approval.graphKey !== app.store.get().graphKey) await app.live.open(approval.graphKey);
    ghosts.show(approval);
    if (NARROW.matches) app.store.set({ panel: "canvas" });
    app.canvas.revealGhosts();
  }
}
