// Which proposal is drawn on the canvas.
//
// The one under the pointer or the focus, else the one a person chose, else the one on top of the review panel while
// that is shown, else the newest that waits in the open graph. One that a person hid stays hidden until they show it again.

import { keptInTab } from "../kept.js";
import { isExpired, isOpen } from "./approvals.js";

const NARROW = matchMedia("(max-width: 760px)");
const REMEMBERED = 100;
const shown = new WeakMap();

// Returns what decides it for the page.
export function ghostsOf(app) {
  if (!shown.has(app)) shown.set(app, createGhosts(app));
  return shown.get(app);
}

function createGhosts(app) {
  const offered = new Map(); // card -> its approval, oldest first
  let chosen = null;
  let near = null;
  let top = null; // on top of the review panel, while that is shown
  let drawn = null; // {id, title, preview}
  const hidden = new Set((keptInTab.get("ghosts.hidden") ?? "").split(" "));
  const watchers = new Set();

  const fits = (approval) => approval && approval.graphKey === app.store.get().graphKey && isOpen(approval) && !isExpired(approval);
  const isHidden = (approval) => hidden.has(approval.id);

  // What is drawn while nothing is under the pointer.
  function resting() {
    const newest = [...offered.values()].filter(fits).toSorted((one, other) => (one.created ?? Infinity) - (other.created ?? Infinity)).at(-1);
    return [chosen, top, newest].find((one) => fits(one) && !isHidden(one)) ?? null;
  }

  function draw() {
    const next = fits(near) && !isHidden(near) ? near : resting();
    const isSame = next?.id === drawn?.id;
    if (!isSame || (next && (next.title !== drawn.title || next.preview !== drawn.preview))) {
      drawn = next && { id: next.id, title: next.title, preview: next.preview };
      if (next) app.canvas.showGhosts(next.preview, { title: next.title, onHide: () => hide(next), stays: isSame });
      else app.canvas.showGhosts(null);
    }
    for (const fn of watchers) fn();
  }

  function hide(approval) {
    hidden.add(approval.id);
    if (near?.id === approval.id) near = null;
    if (chosen?.id === approval.id) chosen = null;
    remember();
  }

  function remember() {
    keptInTab.put("ghosts.hidden", [...hidden].slice(-REMEMBERED).join(" "));
    draw();
  }

  app.store.on("graphKey", () => {
    chosen = near = drawn = null; // the canvas has taken it away itself
    draw();
  });
  app.store.on("graphState", draw);
  return {
    // An approval that waits has come to the page, with a card: it is shown at once.
    offer: (card, approval) => {
      if (!isOpen(approval)) return;
      if (![...offered.values()].some((one) => one.id === approval.id)) chosen = null;
      offered.set(card, approval);
      draw();
    },
    enter: (approval) => {
      if (NARROW.matches) return; // there the canvas takes the place of what is under the finger
      near = approval;
      draw();
    },
    leave: (approval) => {
      if (near?.id === approval.id) near = null;
      draw();
    },
    show: (approval) => {
      hidden.delete(approval.id);
      chosen = approval;
      near = null;
      remember();
    },
    hide,
    putOnTop: (approval) => {
      if (approval === top) return;
      top = approval;
      draw();
    },
    // A card is gone, or its approval does not wait any more.
    drop: (card, approval) => {
      offered.delete(card);
      if (near?.id === approval.id) near = null;
      if (chosen?.id === approval.id) chosen = null;
      draw();
    },
    isResting: (approval) => resting()?.id === approval.id,
    watch: (fn) => (watchers.add(fn), () => watchers.delete(fn)),
  };
}
