// A part of a graph with the preview of a proposal over it, to look at: it is moved and zoomed, never edited.

import { h, replace } from "../dom.js";
import { createDetail } from "../canvas/detail.js";
import { createEdges } from "../canvas/edges.js";
import { createWorld, measuring } from "../canvas/elements.js";
import { createGhosts } from "../canvas/ghosts.js";
import { boundsOf } from "../canvas/model.js";
import { createNodes } from "../canvas/nodes.js";
import { createRoom } from "../canvas/room.js";
import { createView } from "../canvas/view.js";

const TAG_PX = 40; // of a ghost, over its box
const READABLE = 0.5; // a smaller zoom shows what changes alone
const EVERYWHERE = { x1: -Infinity, y1: -Infinity, x2: Infinity, y2: Infinity };

// Draws in `root` what the store holds; `show(preview)` gives it a preview.
export function createPreviewCanvas(root, app) {
  const { t, store } = app;
  const state = store.get;
  const world = createWorld();
  world.world.inert = true; // the card says all of it
  const legend = h("div.legend.floating", { role: "status", hidden: true });
  const stage = h("div.stage.read-only", { role: "img" }, world.grid, world.world);
  stage.addEventListener("wheel", (event) => event.ctrlKey || event.metaKey || event.stopImmediatePropagation(), { capture: true }); // the conversation scrolls on
  const view = createView(stage, world.world, world.grid, ({ k }) => resize(detail.look(k)));
  const detail = createDetail(stage, { state });
  const room = createRoom(measuring(stage));
  const nodes = createNodes(world.nodes, world.backs, { t, state, room });
  const edges = createEdges(world.lines, world.labels, { state, room });
  const ghosts = createGhosts({ layer: world.ghosts, lines: world.ghostLines, legend, app, reveal: fit });
  replace(root, stage, legend);
  new ResizeObserver(fit).observe(stage);
  drag();

  function show(preview) {
    ghosts.show(preview);
    const main = ghosts.mainSheet();
    if (main !== undefined && main !== state().sheet) store.set({ sheet: main });
    draw();
  }

  // Takes the sizes of texts where they are others than before.
  function resize(sizes) {
    if (!sizes) return;
    room.resize(sizes);
    nodes.resize();
    edges.spread();
  }

  function draw() {
    const shown = [...state().nodes.values()].filter((node) => (node.sheet ?? "0") === state().sheet).sort((a, b) => (a.posX ?? 0) - (b.posX ?? 0));
    detail.set(shown);
    nodes.draw(shown);
    nodes.within(EVERYWHERE);
    edges.draw(null);
    edges.within(EVERYWHERE, shown);
    ghosts.draw();
    stage.setAttribute("aria-label", t("canvas.label", { name: state().graph?.name ?? "" }));
    fit();
  }

  function fit() {
    const here = [...state().nodes.values()].filter((node) => (node.sheet ?? "0") === state().sheet);
    const touched = ghosts.touched();
    const all = boundsOf([...here, ...touched]);
    const { w, h: high } = view.size();
    const isReadable = all && (all.x2 - all.x1) * READABLE < w && (all.y2 - all.y1) * READABLE < high;
    const box = isReadable || !touched.length ? all : boundsOf(touched);
    if (box) view.fit({ ...box, y1: box.y1 - TAG_PX }, { animate: false, inset: { top: legend.offsetHeight } });
  }

  function drag() {
    let at = null;
    stage.addEventListener("pointerdown", (event) => {
      at = [event.clientX, event.clientY];
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => {
      if (!at) return;
      view.panBy(event.clientX - at[0], event.clientY - at[1]);
      at = [event.clientX, event.clientY];
    });
    for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, () => (at = null));
  }

  function zoomTo(key) {
    const box = boundsOf([state().nodes.get(key)].filter(Boolean));
    if (box) view.centre((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, { least: 0.7 });
  }

  return { show, draw, zoomTo };
}
