// The canvas: puts view, nodes, edges, ghosts and tools together, and answers keys.

import { h } from "../dom.js";
import { showNotice } from "../dialogs.js";
import { createBanners } from "./banners.js";
import { createCulling } from "./culling.js";
import { createDetail } from "./detail.js";
import { createEdges } from "./edges.js";
import { createEdits } from "./edits.js";
import { createElements, measuring } from "./elements.js";
import { createFar } from "./far.js";
import { createGestures } from "./gestures.js";
import { createGhosts } from "./ghosts.js";
import { createHome } from "./home.js";
import { createCanvasKeys } from "./keys.js";
import { createMinimap } from "./minimap.js";
import { boundsOf, boxOf, touchedBy } from "./model.js";
import { createNodes } from "./nodes.js";
import { createOrder } from "./order.js";
import { createRoom } from "./room.js";
import { createSheets } from "./sheets.js";
import { keepToastsClear } from "./toast-place.js";
import { createView, ZOOM } from "./view.js";

const READABLE = 0.55;
const DONE_AFTER_MS = 200;
const READ_AFTER_MS = 1000; // after the first drawing: what that needs is read before
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
  let tools = null; // what editing.js gives, when it was needed
  let working = null;
  let reading = null; // what reading.js gives, when the first view stood
  let loading = null;
  let waiting = 0;

  const parts = createElements(element, { t, actions: {
    find: () => use("finder"), add: () => use("palette"), undo: () => edits.undo(), redo: () => edits.redo(), fit: () => fit(), tidy: () => use("tidy"),
    out: () => view.zoomBy(1 / ZOOM.step), in: () => view.zoomBy(ZOOM.step), hundred: () => view.zoomTo(1),
  } });
  const { stage, world } = parts;
  const state = store.get;
  const ordered = createOrder(state);
  const view = createView(stage, world, parts.grid, seen);
  const detail = createDetail(stage, { state });
  const edits = createEdits(app);
  const banners = createBanners(parts, app);
  const room = createRoom(measuring(stage));
  const nodes = createNodes(parts.nodes, parts.backs, { t, state, room });
  const edges = createEdges(parts.lines, parts.labels, { state, room });
  const far = createFar(parts.far, { view, state });
  const culling = createCulling({ stage, view, detail, nodes, edges, far });
  const minimap = createMinimap(parts.minimap, { view, state });
  const sheets = createSheets(parts.sheets, { app, edits, change: (...of) => use("sheetEdits", ...of) });
  const home = createHome(parts.home, app);
  const ghosts = createGhosts({ layer: parts.ghosts, lines: parts.ghostLines, legend: parts.legend, app, reveal: revealGhosts, close: hideGhosts });
  const canvas = { zoomTo, select, inspect, showGhosts, hideGhosts, revealGhosts, refresh: app.live.refresh, redraw: () => (minimap.repaint(), far.repaint(), schedule()), fit, removeSelected: () => use("removing", "removeSelected"), focusSelected, focusNode, focusNew, markDone, effectOf: nodes.effectOf, light: (keys) => nodes.markAll("lit", keys), showSources, clearSources: () => Boolean(reading?.highlights.clear()), find: () => use("finder"), preview, edits, view };
  const gestures = createGestures({ stage, world, overlay: parts.overlay, view, nodes, edges, far, edits, app, shown: () => order, dragged: (by) => reading?.dragged(by), open: inspect, addAfter: (...of) => use("connecting", "addAfter", ...of) });
  canvas.key = createCanvasKeys({ app, canvas, view, edits, use, inspector: () => tools?.inspector, sheets, stage, ordered: () => order, isGhostShown: () => ghosts.isShown }).key;

  // Reads what a person works with, once.
  function work() {
    const make = ({ createEditing }) => (tools = createEditing({ app, canvas, edits, view, parts, ordered: () => order, targetAt: gestures.targetAt }));
    return (working ??= import("./editing.js").then(make, (error) => {
      working = null; // asked again
      throw error;
    }));
  }

  // Does something with one of them: opens it, or calls one of its functions.
  async function use(name, action = "open", ...values) {
    if (!tools) await app.keys.until(work());
    return tools[name][action](...values);
  }

  function schedule() {
    frame ||= requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    const { graphState, graphKey, graph, graphError, sheet } = state();
    const wasShown = element.dataset.state;
    element.dataset.state = graphState === "ready" ? "ready" : graphKey ? graphState : "home";
    parts.home.hidden = graphState === "ready";
    if (element.dataset.state !== wasShown) takeFocus(graphState === "ready" ? stage : parts.home);
    if (graphState !== "ready") {
      if (!graphKey) home.draw();
      else if (graphState === "failed") showNotice(parts.home, { name: "error", title: t("graph.failed"), text: graphError?.message, actions: failedActions() });
      else showNotice(parts.home, { busy: true, text: t("graph.loading") });
      if (!graphKey || graphState === "failed") clear();
      return;
    }
    order = ordered(order);
    detail.set(order);
    drawn = `${graphKey}\n${sheet}`;
    stage.classList.toggle("animated", isAnimated);
    stage.classList.toggle("read-only", !edits.mayEdit());
    const hadFocus = stage.contains(document.activeElement);
    const changed = nodes.draw(order);
    if (hadFocus) takeFocus(stage); // of a node that is gone
    const isKnown = edges.draw(changed);
    minimap.setNodes(order);
    far.set(order, edges.curves);
    sheets.draw();
    ghosts.draw();
    tools?.inspector.draw();
    parts.empty.hidden = order.length > 0;
    stage.setAttribute("aria-label", t("canvas.label", { name: graph?.name ?? graphKey }));
    stage.setAttribute("aria-description", t("canvas.instructions"));
    place();
    culling.again(order.length, isKnown ? changed : null);
    far.paint();
    look();
  }

  // What is read after the first view looks at what is seen now.
  function look() {
    if (reading) reading.look();
    else waiting ||= setTimeout(() => ((waiting = 0), read().catch(app.updates.look)), READ_AFTER_MS);
  }

  // Reads it, once.
  function read() {
    const make = ({ createReading }) => (reading = createReading({ app, canvas, nodes, edges, parts, view, detail, far, ordered: () => order }));
    return (loading ??= import("./reading.js").then(make, (error) => {
      loading = null; // asked again
      throw error;
    }));
  }

  async function showSources(sources) {
    (await read()).highlights.show(sources);
  }

  // Keys are for the canvas until a person chooses something else.
  function takeFocus(place) {
    if (document.activeElement === document.body && !document.querySelector("dialog[open]")) place.focus({ preventScroll: true, focusVisible: false });
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

  // Shows all of it, or where names could not be read then, its start: the first node that nothing leads to.
  function begin() {
    fit({ animate: false });
    const box = boundsOf(order);
    const { w, h: high } = view.size();
    if (!box || view.get().k >= (NARROW.matches ? READABLE : detail.least)) return;
    const ends = [...state().edges.values()];
    const [led, leading] = [new Set(ends.map((edge) => edge.target)), new Set(ends.map((edge) => edge.source))];
    const start = order.find(({ _key }) => leading.has(_key) && !led.has(_key)) ?? order.find((node) => Object.keys(node.handles ?? {}).length);
    const first = boxOf(start ?? order[0]);
    const left = NARROW.matches ? 24 : w / 10;
    const up = Math.min(high / 2 - 24, 24 + (first.y + first.h / 2 - box.y1) * READABLE); // nothing of it is above: it begins at the top
    view.put({ k: READABLE, x: left - first.x * READABLE, y: Math.max(up, 24 + (first.h / 2) * READABLE) - (first.y + first.h / 2) * READABLE });
  }

  function clear() {
    order = [];
    nodes.draw(order);
    edges.draw(null);
    culling.again(0);
    fitted = drawn = null;
    tools?.inspector.close();
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
    const sizes = detail.look(now.k);
    if (sizes) resize(sizes);
    minimap.redraw();
    culling.cull();
    far.paint();
    reading?.look();
  }

  // Texts are drawn in other sizes from now on.
  function resize(sizes) {
    room.resize(sizes);
    nodes.resize();
    edges.spread();
  }

  // The room that tools and the inspector take.
  function inset() {
    const isOpen = tools?.inspector.isOpen;
    if (NARROW.matches) return { bottom: isOpen ? parts.inspector.offsetHeight : 100 };
    return { left: isOpen ? parts.inspector.offsetWidth : 0, bottom: 48 };
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
    nodes.markAll("leaving", (preview?.nodesMoved ?? []).map((change) => change.key));
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
    setTimeout(() => nodes.markDone(touchedBy(approval.preview)), DONE_AFTER_MS); // its news are on their way
  }

  // Shows nodes elsewhere before the move is sent.
  function preview(keys, dx, dy) {
    const moved = new Set(keys);
    for (const key of keys) nodes.shift(key, dx, dy);
    edges.follow(keys, (node) => (moved.has(node._key) ? { ...node, posX: boxOf(node).x + dx, posY: boxOf(node).y + dy } : node));
  }

  async function inspect(key) {
    store.set({ selection: [key] });
    await use("inspector");
    tools.inspector.focus();
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
    const found = nodes.show(key);
    if (!node || !found) return;
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
    (nodes.show(state().selection[0]) ?? stage).focus({ preventScroll: true });
  }

  function speak() {
    parts.speak();
    banners.speak();
    reading?.highlights.draw();
    schedule();
  }

  for (const part of ["nodes", "edges", "nodeTypes", "graph", "graphState", "graphKey", "graphs", "graphsError", "thumbnails", "deletedGraphs", "sheet", "me", "notEditable"]) store.on(part, schedule);
  store.on("graphKey", () => {
    showGhosts(null);
    reading?.highlights.show({});
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
    if (selection.length) work().catch(app.updates.look); // likely to be needed now
    tools?.inspector.draw();
  });
  store.on("lang", speak);
  stage.addEventListener("focusin", (event) => {
    const key = event.target.closest?.(".node")?.dataset.key;
    if (key && event.target.matches(":focus-visible")) focusNode(key);
  });
  stage.addEventListener("contextmenu", (event) => {
    if (event.target.closest(".floating, .scrolls") || state().graphState !== "ready") return;
    event.preventDefault();
    use("menu", "openFor", event);
  });
  const isHere = () => state().graphState === "ready" && (stage.contains(document.activeElement) || document.activeElement === document.body)
    && getSelection().isCollapsed && !document.querySelector("dialog[open]");
  for (const type of ["copy", "cut"]) document.addEventListener(type, (event) => {
    if (!isHere()) return;
    if (tools) tools.clipboard.copied(event);
    else if (state().selection.length) (event.preventDefault(), use("clipboard", type)); // as by the menu
  });
  document.addEventListener("paste", (event) => {
    if (!isHere()) return;
    event.preventDefault();
    use("clipboard", "pasted", event.clipboardData.getData("text/plain"));
  });
  new ResizeObserver(() => {
    far.resize();
    far.paint();
    place();
    culling.cull();
    minimap.redraw();
    if (isUnseen) revealGhosts();
  }).observe(stage);
  keepToastsClear(parts);
  speak();
  return canvas;
}
