// The canvas: puts view, nodes, edges, ghosts and tools together, and answers keys.

import { h } from "../dom.js";
import { showNotice } from "../dialogs.js";
import { createBanners } from "./banners.js";
import { createCulling } from "./culling.js";
import { createEdges } from "./edges.js";
import { createEdits } from "./edits.js";
import { createElements } from "./elements.js";
import { createFar } from "./far.js";
import { createFinder } from "./finder.js";
import { createGestures } from "./gestures.js";
import { createGhosts } from "./ghosts.js";
import { createHome } from "./home.js";
import { createInspector } from "./inspector.js";
import { createCanvasKeys } from "./keys.js";
import { createMinimap } from "./minimap.js";
import { boundsOf, boxOf, touchedBy } from "./model.js";
import { createNodes } from "./nodes.js";
import { createPalette } from "./palette.js";
import { createSheets } from "./sheets.js";
import { createView, ZOOM } from "./view.js";

const READABLE = 0.55;
const DONE_AFTER_MS = 200;
const NARROW = matchMedia("(max-width: 760px)");

export function createCanvas(app, element) {
  const { store, t } = app;
  const seenAt = new Map(); // graph and sheet -> the view a person left
  let order = [];
  let frame = 0;
  let drawn = null; // the graph and sheet whose nodes are drawn
  let fitted = null; // those whose view is placed
  let isAnimated = false;
  let whenHidden = null; // what a preview's owner does when a person hides it
  let isUnseen = false; // a preview came while the canvas was not shown

  const parts = createElements(element, { t, actions: {
    find: () => finder.open(), add: () => palette.open(), undo: () => edits.undo(), redo: () => edits.redo(), fit: () => fit(),
    out: () => view.zoomBy(1 / ZOOM.step), in: () => view.zoomBy(ZOOM.step), hundred: () => view.zoomTo(1),
  } });
  const { stage, world } = parts;
  const state = store.get;
  const view = createView(stage, world, parts.grid, seen);
  const edits = createEdits(app);
  const banners = createBanners(parts, app);
  const nodes = createNodes(parts.nodes, parts.backs, { t, state });
  const edges = createEdges(parts.lines, parts.labels, { t, state });
  const far = createFar(parts.far, { view, state });
  const culling = createCulling({ stage, view, nodes, edges, far });
  const minimap = createMinimap(parts.minimap, { view, state });
  const sheets = createSheets(parts.sheets, { app, edits });
  const home = createHome(parts.home, app);
  const ghosts = createGhosts({ layer: parts.ghosts, lines: parts.ghostLines, legend: parts.legend, app, reveal: revealGhosts, close: hideGhosts });
  const canvas = { zoomTo, select, inspect, showGhosts, hideGhosts, revealGhosts, refresh: app.live.refresh, redraw: () => (minimap.repaint(), far.repaint(), schedule()), fit, removeSelected, focusSelected, focusNode, focusNew, markDone, light: nodes.light, find: () => finder.open(), preview, edits, view };
  const finder = createFinder({ app, canvas });
  const palette = createPalette({ app, edits, view, canvas, ordered: () => order });
  const inspector = createInspector(parts.inspector, { app, edits, canvas });
  createGestures({ stage, world, overlay: parts.overlay, view, nodes, edges, far, edits, app, shown: () => order, open: inspect });
  canvas.key = createCanvasKeys({ app, canvas, view, edits, inspector, palette, sheets, stage, ordered: () => order, isGhostShown: () => ghosts.isShown }).key;

  // The nodes of the sheet as they are read: in columns of the flow; notes and frames first, they lie behind.
  function ordered() {
    const { nodes: all, sheet, nodeTypes } = state();
    const isBack = (node) => nodeTypes.get(node.type)?.category === "note" || node.type === "note";
    return [...all.values()].filter((node) => (node.sheet ?? "0") === sheet).sort((a, b) =>
      isBack(b) - isBack(a) || Math.round((a.posX ?? 0) / 80) - Math.round((b.posX ?? 0) / 80) || (a.posY ?? 0) - (b.posY ?? 0) || (a._key < b._key ? -1 : 1));
  }

  function schedule() {
    frame ||= requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    const { graphState, graphKey, graph, graphError, sheet } = state();
    element.dataset.state = graphState === "ready" ? "ready" : graphKey ? graphState : "home";
    parts.home.hidden = graphState === "ready";
    if (graphState !== "ready") {
      if (!graphKey) home.draw();
      else if (graphState === "failed") showNotice(parts.home, { name: "error", title: t("graph.failed"), text: graphError?.message, actions: failedActions() });
      else showNotice(parts.home, { busy: true, text: t("graph.loading") });
      if (!graphKey || graphState === "failed") clear();
      return;
    }
    order = ordered();
    drawn = `${graphKey}\n${sheet}`;
    const here = new Map(order.map((node) => [node._key, node]));
    stage.classList.toggle("animated", isAnimated);
    stage.classList.toggle("read-only", !edits.mayEdit());
    nodes.draw(order);
    edges.draw([...state().edges.values()].filter((edge) => (edge.sheet ?? "0") === sheet), here);
    minimap.setNodes(order);
    far.set(order, edges.curves);
    sheets.draw();
    ghosts.draw();
    inspector.draw();
    parts.empty.hidden = order.length > 0;
    stage.setAttribute("aria-label", t("canvas.label", { name: graph?.name ?? graphKey }));
    stage.setAttribute("aria-description", t("canvas.instructions"));
    place();
    culling.again(order.length);
    far.paint();
  }

  // Shows a sheet as it was left; a sheet that was not looked at yet is shown whole.
  function place() {
    const { graphKey, sheet } = state();
    const id = `${graphKey}\n${sheet}`;
    if (fitted === id || drawn !== id || !stage.clientWidth) return;
    fitted = id;
    const left = seenAt.get(id);
    if (left) view.put(left);
    else begin();
  }

  // Shows all of it; on a narrow screen the beginning of it, where all would be too small to read.
  function begin() {
    fit({ animate: false });
    const box = boundsOf(order);
    const { w, h: high } = view.size();
    if (!box || !NARROW.matches || w / (box.x2 - box.x1) > READABLE) return;
    const first = boxOf(order.find((node) => Object.keys(node.handles ?? {}).length) ?? order[0]);
    view.put({ k: READABLE, x: 24 - first.x * READABLE, y: high / 2 - 50 - (first.y + first.h / 2) * READABLE });
  }

  function clear() {
    order = [];
    nodes.draw([]);
    edges.draw([], new Map());
    fitted = drawn = null;
    inspector.close();
  }

  function failedActions() {
    const { graphKey, sheet } = state();
    return [
      h("button.primary", { type: "button", onclick: () => app.live.open(graphKey, sheet) }, t("app.retry")),
      h("button", { type: "button", onclick: () => app.live.close() }, t("graph.back")),
    ];
  }

  function seen(now) {
    const { graphKey, sheet } = state();
    if (fitted === `${graphKey}\n${sheet}`) seenAt.set(fitted, now);
    const text = `${Math.round(now.k * 100)} %`;
    if (parts.percent.textContent !== text) {
      parts.percent.textContent = text;
      parts.percent.setAttribute("aria-label", t("canvas.zoom_reset", { n: Math.round(now.k * 100) }));
    }
    minimap.redraw();
    culling.cull();
    far.paint();
  }

  // The room that tools and the inspector take.
  function inset() {
    if (NARROW.matches) return { bottom: inspector.isOpen ? parts.inspector.offsetHeight : 100 };
    return { left: inspector.isOpen ? parts.inspector.offsetWidth : 0, bottom: 48 };
  }

  function fit({ animate = true, box } = {}) {
    view.fit(box ?? boundsOf(order), { animate, inset: inset() });
  }

  // Shows a node: its sheet, in the middle, selected. Returns whether it exists.
  function zoomTo(key) {
    const node = state().nodes.get(key);
    if (!node) {
      app.toast("warn", t("canvas.no_such_node", { key: String(key) }));
      return false;
    }
    if (NARROW.matches) store.set({ panel: "canvas" });
    if ((node.sheet ?? "0") !== state().sheet) app.live.showSheet(node.sheet);
    draw();
    const { x, y, w, h: high } = boxOf(node);
    view.centre(x + w / 2, y + high / 2, { least: 0.8, inset: inset() });
    store.set({ selection: [key] });
    nodes.pulse(key);
    return true;
  }

  function select(keys) {
    const { nodes: all, edges: lines, sheet } = state();
    const known = keys.filter((key) => all.has(key) || lines.has(key));
    const first = all.get(known[0]) ?? lines.get(known[0]);
    if (first && (first.sheet ?? "0") !== sheet) app.live.showSheet(first.sheet);
    draw();
    store.set({ selection: known });
    const boxes = known.map((key) => all.get(key)).filter((node) => node && (node.sheet ?? "0") === state().sheet);
    if (boxes.length) fit({ box: boundsOf(boxes) });
  }

  // Draws the preview of a proposal over the graph, and moves to where it can be seen; null takes it away.
  // `title` says what is proposed; `onHide` is called when a person wants it hidden; `stays`: the view does not move.
  function showGhosts(preview, { title = "", onHide = null, stays = false } = {}) {
    ghosts.show(preview, title);
    whenHidden = preview ? onHide : null;
    isUnseen = Boolean(preview) && !stays;
    if (isUnseen) revealGhosts();
  }

  function hideGhosts() {
    if (whenHidden) whenHidden();
    else showGhosts(null);
  }

  function revealGhosts() {
    if (!ghosts.isShown || state().graphState !== "ready") return;
    const sheet = ghosts.mainSheet();
    if (sheet !== undefined && sheet !== state().sheet) app.live.showSheet(sheet);
    draw();
    if (!stage.clientWidth) return; // seen when the canvas is
    isUnseen = false;
    const box = boundsOf(ghosts.touched());
    if (!box) return;
    const now = view.seen();
    const top = parts.legend.offsetHeight / view.get().k;
    const isSeen = box.x1 > now.x1 && box.y1 > now.y1 + top && box.x2 < now.x2 && box.y2 < now.y2 && view.get().k > 0.3;
    if (!isSeen) view.fit(box, { most: Math.max(0.8, Math.min(1, view.get().k)), inset: { ...inset(), top: parts.legend.offsetHeight + 24 } });
  }

  // Shows for a while what a change that was just carried out has touched.
  function markDone(approval) {
    if (approval.graphKey !== state().graphKey || approval.status !== "applied") return;
    setTimeout(() => touchedBy(approval.preview).forEach(nodes.markDone), DONE_AFTER_MS); // its news are on their way
  }

  async function removeSelected() {
    const { selection, nodes: all } = state();
    if (!selection.length || !edits.check()) return;
    const chosen = selection.filter((key) => all.has(key));
    const name = chosen.length ? nodes.element(chosen[0])?.querySelector(".node-name")?.textContent ?? chosen[0] : "";
    const sure = chosen.length <= 1 || (await app.confirm({ title: t("inspector.delete"), text: t("inspector.delete_sure", { n: chosen.length, name }), ok: t("inspector.delete"), danger: true }));
    if (!sure || !(await edits.remove(selection))) return;
    app.toast("info", t("edit.delete", { n: selection.length, name: name || selection[0] }), { action: { label: t("canvas.undo"), run: edits.undo } });
    stage.focus({ preventScroll: true });
  }

  // Shows nodes elsewhere before the move is sent.
  function preview(keys, dx, dy) {
    const moved = new Set(keys);
    for (const key of keys) nodes.shift(key, dx, dy);
    edges.follow(keys, (node) => (moved.has(node._key) ? { ...node, posX: boxOf(node).x + dx, posY: boxOf(node).y + dy } : node));
  }

  function inspect(key) {
    store.set({ selection: [key] });
    inspector.open();
    inspector.focus();
    uncover(key);
  }

  // Brings a node out from under the inspector.
  function uncover(key) {
    const found = nodes.element(key)?.getBoundingClientRect();
    const panel = parts.inspector.getBoundingClientRect();
    const node = state().nodes.get(key);
    if (!found || !node) return;
    const isCovered = found.left < panel.right && found.right > panel.left && found.top < panel.bottom && found.bottom > panel.top;
    const { x, y, w, h: high } = boxOf(node);
    if (isCovered) view.centre(x + w / 2, y + high / 2, { inset: inset() });
  }

  function focusNode(key) {
    const node = state().nodes.get(key);
    const found = nodes.element(key);
    if (!node || !found) return;
    nodes.show(key);
    found.focus({ preventScroll: true });
    const { x, y, w, h: high } = boxOf(node);
    const now = view.seen();
    const isSeen = x >= now.x1 && y >= now.y1 && x + w <= now.x2 && y + high <= now.y2;
    if (!isSeen) view.centre(x + w / 2, y + high / 2, { inset: inset() });
  }

  function focusNew(key) {
    draw();
    focusNode(key);
  }

  function focusSelected() {
    const found = nodes.element(state().selection[0]);
    (found ?? stage).focus({ preventScroll: true });
  }

  function speak() {
    parts.speak();
    banners.speak();
    schedule();
  }

  for (const part of ["nodes", "edges", "nodeTypes", "graph", "graphState", "graphKey", "graphs", "graphsError", "sheet", "me", "notEditable"]) store.on(part, schedule);
  store.on("graphKey", () => {
    showGhosts(null);
    nodes.light([]);
    isAnimated = false;
  });
  store.on("graphState", (now) => now === "ready" && setTimeout(() => {
    isAnimated = true; // others' moves glide; the first drawing does not
    stage.classList.add("animated");
  }, 400));
  store.on("selection", (selection) => {
    nodes.select(selection);
    edges.select(selection);
    minimap.repaint();
    far.paint();
    inspector.draw();
  });
  store.on("lang", speak);
  stage.addEventListener("focusin", (event) => {
    const key = event.target.closest?.(".node")?.dataset.key;
    if (key && event.target.matches(":focus-visible")) focusNode(key);
  });
  new ResizeObserver(() => {
    far.resize();
    far.paint();
    place();
    minimap.redraw();
    if (isUnseen) revealGhosts();
  }).observe(stage);
  speak();
  return canvas;
}
