/** Which proposal is drawn on the canvas: the pinned one, else the one under the pointer or the focus. */

const NARROW = matchMedia("(max-width: 760px)");
const shown = new WeakMap();

/** Return what decides it for the page. */
export function ghostsOf(app) {
  if (!shown.has(app)) shown.set(app, createGhosts(app));
  return shown.get(app);
}

function createGhosts(app) {
  let pinned = null;
  let near = null;
  const watchers = new Set();

  function draw() {
    const approval = near ?? pinned;
    const fits = approval && approval.graphKey === app.store.get().graphKey;
    app.canvas.showGhosts(fits ? approval.preview : null);
    for (const fn of watchers) fn();
  }

  app.store.on("graphKey", () => {
    pinned = near = null;
    draw();
  });
  return {
    enter: (approval) => {
      if (NARROW.matches) return; // there the canvas takes the place of what is under the finger
      near = approval;
      draw();
    },
    leave: (approval) => {
      if (near?.id === approval.id) near = null;
      draw();
    },
    pin: (approval) => ((pinned = approval), (near = null), draw()),
    drop: (approval) => {
      if (near?.id === approval.id) near = null;
      if (pinned?.id === approval.id) pinned = null;
      draw();
    },
    isPinned: (approval) => pinned?.id === approval.id,
    watch: (fn) => (watchers.add(fn), () => watchers.delete(fn)),
  };
}
