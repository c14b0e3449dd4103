// The canvas: puts view, nodes, edges, ghosts and tools together, and answers keys.

import { h, replace, svg } from "../dom.js";
import { showNotice } from "../dialogs.js";
import { icon } from "../icons.js";
import { createBanners } from "./banners.js";
import { createEdges } from "./edges.js";
import { createEdits } from "./edits.js";
import { createFar, FAR_BELOW } from "./far.js";
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
const CULLED = 150; // sheets of more nodes show only what is near, and from far away one picture
const DONE_AFTER_MS = 200;
const SETTLED_MS = 140; // so long a zoom rests before single elements stand again in place of the picture
const MARGIN = 0.4; // of what is seen, kept around it
const NOWHERE = { x1: 1, y1: 1, x2: 0, y2: 0 };
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
  let settling = 0;
  let isSettled = false; // the zoom rests
  let kept = null; // the part of the sheet whose elements are in the page

  const parts = build(element);
  const { stage, world } = parts;
  const state = store.get;
  const view = createView(stage, world, parts.grid, seen);
  const edits = createEdits(app);
  const banners = createBanners(parts, app);
  const nodes = createNodes(parts.nodes, parts.backs, { t, state });
  const edges = createEdges(parts.lines, parts.labels, { t, state });
  const far = createFar(parts.far, { view, state });
  const minimap = createMinimap(parts.minimap, { view, state });
  const sheets = createSheets(parts.sheets, { app, edits });
  const home = createHome(parts.home, app);
  const ghosts = createGhosts({ layer: parts.ghosts, lines: parts.ghostLines, legend: parts.legend, app, reveal: revealGhosts, close: hideGhosts });
  const canvas = { zoomTo, select, inspect, showGhosts, hideGhosts, revealGhosts, refresh: app.live.refresh, redraw: () => (minimap.repaint(), far.repaint(), schedule()), fit, removeSelected, focusSelected, focusNode, focusNew, markDone, find: () => finder.open(), preview, edits, view };
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
    kept = null;
    cull();
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
    cull();
    far.paint();
  }

  // Leaves out what is far from what is seen; a wide margin keeps most moves free of work.
  function cull() {
    const isFar = order.length > CULLED && (view.get().k < FAR_BELOW || (far.isOn && !isSettled));
    if (isFar && view.get().k >= FAR_BELOW) settleLater();
    if (isFar !== far.isOn) {
      far.show(isFar);
      stage.classList.toggle("painted", isFar);
      kept = null;
    }
    if (isFar) {
      if (kept !== NOWHERE) nodes.within(NOWHERE), edges.within(NOWHERE);
      kept = NOWHERE;
      return;
    }
    const now = view.seen();
    if (kept && now.x1 >= kept.x1 && now.y1 >= kept.y1 && now.x2 <= kept.x2 && now.y2 <= kept.y2 && now.x2 - now.x1 > (kept.x2 - kept.x1) / 5) return;
    const [w, high] = [now.x2 - now.x1, now.y2 - now.y1];
    kept = { x1: now.x1 - w * MARGIN, y1: now.y1 - high * MARGIN, x2: now.x2 + w * MARGIN, y2: now.y2 + high * MARGIN };
    nodes.within(order.length > CULLED ? kept : null);
    edges.within(order.length > CULLED ? kept : null);
  }

  function settleLater() {
    clearTimeout(settling);
    settling = setTimeout(() => {
      isSettled = true;
      cull();
      isSettled = false;
    }, SETTLED_MS);
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

  function build(root) {
    const made = {};
    const tool = (name, label, onclick, extra) => h("button.icon-button", { type: "button", class: extra, title: t(label), "aria-label": t(label), dataset: { label }, onclick }, icon(name));
    made.lines = svg("g.lines");
    made.ghostLines = svg("g.ghost-lines");
    const picture = svg("svg.curves", { "aria-hidden": "true" }, svg("defs", arrow("arrow"), arrow("arrow-moved")), made.lines, made.ghostLines);
    made.nodes = h("div.nodes");
    made.backs = h("div.nodes");
    made.labels = h("div.labels", { "aria-hidden": "true" });
    made.ghosts = h("div.ghosts");
    made.world = h("div.world", made.backs, picture, made.labels, made.nodes, made.ghosts);
    made.overlay = h("div.overlay");
    made.grid = h("div.grid");
    made.far = h("canvas.far", { "aria-hidden": "true" });
    made.stage = h("div.stage", { tabIndex: 0, role: "application" }, made.grid, made.far, made.world, made.overlay);
    made.legend = h("div.legend.floating", { role: "status", hidden: true });
    made.empty = h("div.empty-sheet", { hidden: true });
    made.percent = h("button.percent", { type: "button", onclick: () => view.zoomTo(1) }, "100 %");
    made.minimap = h("canvas.minimap", { role: "img" });
    made.tools = h("div.canvas-tools.floating", { role: "toolbar" },
      tool("search", "find.title", () => finder.open()), tool("add_node", "palette.title", () => palette.open(), "edit-only"), h("span.tool-gap"), tool("undo", "canvas.undo", () => edits.undo(), "edit-only"), tool("redo", "canvas.redo", () => edits.redo(), "edit-only"), h("span.tool-gap"),
      tool("minus", "canvas.zoom_out", () => view.zoomBy(1 / ZOOM.step)), made.percent, tool("plus", "canvas.zoom_in", () => view.zoomBy(ZOOM.step)), tool("fit", "canvas.fit", () => fit()));
    made.sheets = h("div.sheets.floating");
    made.inspector = h("section.inspector.floating.scrolls", { hidden: true, tabIndex: -1 });
    made.home = h("div.home-holder");
    made.lost = h("div.lost.floating", { role: "alert" });
    made.look = h("div.look-only.floating", { role: "status", hidden: true });
    replace(root, made.stage, made.look, made.legend, made.empty, h("div.corner.floating", made.minimap, made.tools), made.sheets, made.inspector, made.lost, made.home);
    return made;
  }

  function arrow(id) {
    return svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0.500 8 4 0 7.500z" }));
  }

  function speak() {
    for (const button of parts.tools.querySelectorAll("[data-label]")) {
      button.title = t(button.dataset.label);
      button.setAttribute("aria-label", button.title);
    }
    parts.minimap.setAttribute("aria-label", t("canvas.minimap"));
    parts.minimap.title = t("canvas.minimap");
    parts.inspector.setAttribute("aria-label", t("inspector.title"));
    replace(parts.empty, icon("graph"), h("h2", t("canvas.empty")), h("p", t("canvas.empty_hint")), h("button", { type: "button", class: "edit-only", onclick: () => palette.open() }, icon("add_node"), t("palette.title")));
    banners.speak();
    schedule();
  }

  for (const part of ["nodes", "edges", "nodeTypes", "graph", "graphState", "graphKey", "graphs", "graphsError", "sheet", "me", "notEditable"]) store.on(part, schedule);
  store.on("graphKey", () => {
    showGhosts(null);
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
