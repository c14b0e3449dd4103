// What the pointer does on the canvas: pan, drag nodes, select by a frame, connect handles, pinch.

import { h, setStyle, svg } from "../dom.js";
import { boxOf, curve, pointsOf } from "./model.js";

const SLOP_PX = 4;
const SNAP = 10;
const REACH_PX = 26;

export function createGestures({ stage, world, overlay, view, nodes, edges, far, edits, app, shown, dragged, open, addAfter }) {
  const { store } = app;
  const pointers = new Map();
  let gesture = null;

  stage.addEventListener("pointerdown", down);
  stage.addEventListener("pointermove", move);
  stage.addEventListener("pointerup", up);
  stage.addEventListener("pointercancel", cancel);
  stage.addEventListener("dblclick", (event) => {
    const key = nodeAt(event) ?? edgeAt(event);
    if (key) open(key);
  });

  // The node under the pointer; one that is only painted gets its element for what follows.
  function nodeAt(event) {
    const key = event.target.closest?.(".node")?.dataset.key;
    if (key || !far.isOn) return key;
    const { x, y } = view.toWorld(event.clientX, event.clientY);
    const painted = far.hit(x, y);
    if (painted) nodes.show(painted);
    return painted;
  }

  function edgeAt(event) {
    const label = event.target.closest?.(".edge-label");
    if (label) return label.dataset.edge;
    const { x, y } = view.toWorld(event.clientX, event.clientY);
    return edges.hit(x, y, view.get().k);
  }

  function down(event) {
    if (event.target.closest(".floating, .scrolls") || (event.button !== 0 && event.button !== 1)) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    view.stopMoving();
    if (pointers.size === 2) return pinch();
    if (pointers.size > 2) return undefined;
    const key = event.button === 0 ? nodeAt(event) : null;
    const handle = event.target.closest(".handle");
    const base = { x: event.clientX, y: event.clientY, moved: false, event, key };
    if (handle && key && edits.mayEdit()) gesture = { ...base, kind: "connect", handle };
    else if (key && (isSolid(key) || store.get().selection.includes(key))) gesture = { ...base, kind: "node" };
    else if (event.shiftKey && event.button === 0) gesture = { ...base, kind: "frame" };
    else gesture = { ...base, kind: "pan" };
    capture(event.pointerId);
    if (event.button === 1) event.preventDefault();
    return undefined;
  }

  // Capture at once would keep double clicks from the element below: only a real movement captures.
  function capture(id) {
    gesture.id = id;
  }

  // Notes and frames lie behind everything: dragging over them pans, unless they are selected.
  function isSolid(key) {
    return !["note", "group"].includes(nodes.element(key)?.dataset.shape);
  }

  function move(event) {
    const before = pointers.get(event.pointerId);
    if (!before || !gesture) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (gesture.kind === "pinch") return pinched();
    if (event.pointerId !== gesture.id) return;
    const dx = event.clientX - gesture.x;
    const dy = event.clientY - gesture.y;
    if (!gesture.moved) {
      if (Math.hypot(dx, dy) < SLOP_PX) return;
      gesture.moved = true;
      stage.setPointerCapture(event.pointerId);
      BEGIN[gesture.kind]?.(event);
    }
    ON[gesture.kind](dx, dy, event, before);
  }

  const BEGIN = {
    pan: () => stage.classList.add("panning"),
    node: beginDrag,
    frame: () => overlay.append((gesture.frame = h("div.frame"))),
    connect: beginConnect,
  };

  const ON = {
    pan: (dx, dy, event, before) => view.panBy(event.clientX - before.x, event.clientY - before.y),
    node: drag,
    frame: frame,
    connect: connect,
  };

  function up(event) {
    pointers.delete(event.pointerId);
    const done = gesture;
    if (!done || (done.kind === "pinch" ? pointers.size : event.pointerId !== done.id)) return;
    gesture = null;
    stage.classList.remove("panning");
    done.frame?.remove();
    done.line?.remove();
    stage.classList.remove("connecting");
    if (done.kind === "pinch") return;
    if (!done.moved && done.kind === "connect" && done.handle.dataset.direction === "out") addAfter(done.key, done.handle.dataset.handle);
    else if (!done.moved) click(done);
    else if (done.kind === "node") drop(done);
    else if (done.kind === "connect") connected(done);
  }

  function cancel(event) {
    pointers.delete(event.pointerId);
    end();
  }

  // Ends the gesture without doing what it was for.
  function end() {
    if (gesture?.kind === "node" && gesture.moved) for (const key of gesture.keys ?? []) putBack(key);
    dragged(null);
    gesture?.frame?.remove();
    gesture?.line?.remove();
    stage.classList.remove("panning", "connecting", "dragging");
    gesture = null;
  }

  // A node that the pointer holds was deleted: that is said, and the gesture goes on with the others or ends.
  function lost(nodes, earlier) {
    if (!["node", "connect"].includes(gesture?.kind)) return;
    const keys = gesture.keys ?? [gesture.key];
    const left = keys.filter((key) => nodes.has(key));
    if (left.length === keys.length) return;
    if (gesture.moved) edits.tellGone(keys, earlier);
    if (left.length) Object.assign(gesture, { keys: left, key: left[0] });
    else end();
  }

  store.on("nodes", lost);

  function click({ event, key }) {
    if (event.button !== 0) return;
    const target = key ?? edgeAt(event);
    const { selection } = store.get();
    const adds = event.shiftKey || event.ctrlKey || event.metaKey;
    if (!target) {
      if (!adds) store.set({ selection: [] });
      stage.focus({ preventScroll: true });
    } else if (adds) store.set({ selection: selection.includes(target) ? selection.filter((one) => one !== target) : [...selection, target] });
    else store.set({ selection: [target] });
  }

  // Dragging nodes

  function beginDrag() {
    const { selection } = store.get();
    if (!selection.includes(gesture.key)) store.set({ selection: [gesture.key] });
    if (!edits.check()) {
      gesture.kind = "pan";
      return;
    }
    gesture.keys = store.get().selection.filter((key) => store.get().nodes.has(key));
    stage.classList.add("dragging");
  }

  function drag(dx, dy, event) {
    if (!gesture.keys) return;
    const { k } = view.get();
    const lead = boxOf(store.get().nodes.get(gesture.key) ?? {});
    // The dragged node comes to lie on the grid; Alt leaves it where the pointer is.
    const snap = (at, by) => (event.altKey ? Math.round(at + by) : Math.round((at + by) / SNAP) * SNAP) - at;
    gesture.by = { dx: snap(lead.x, dx / k), dy: snap(lead.y, dy / k) };
    const shift = gesture.by;
    const keys = new Set(gesture.keys);
    dragged(shift);
    for (const key of keys) nodes.shift(key, shift.dx, shift.dy);
    edges.follow(keys, (node) => (keys.has(node._key) ? { ...node, posX: boxOf(node).x + shift.dx, posY: boxOf(node).y + shift.dy } : node));
  }

  async function drop({ keys, by }) {
    stage.classList.remove("dragging");
    if (!keys || !by) return;
    const at = store.get().nodes;
    const moves = keys.filter((key) => at.has(key)).map((key) => ({ key, x: boxOf(at.get(key)).x + by.dx, y: boxOf(at.get(key)).y + by.dy }));
    const isDone = by.dx || by.dy ? await edits.move(moves) : false;
    if (!isDone) keys.forEach(putBack);
    for (const key of keys) nodes.element(key)?.classList.remove("dragged");
    dragged(null);
  }

  // Puts a node back to where the graph has it.
  function putBack(key) {
    nodes.shift(key, 0, 0);
    edges.follow([key], (node) => node);
  }

  // Selecting by a frame

  function frame(dx, dy, event) {
    const box = stage.getBoundingClientRect();
    const [x1, x2] = [gesture.x, event.clientX].sort((a, b) => a - b);
    const [y1, y2] = [gesture.y, event.clientY].sort((a, b) => a - b);
    setStyle(gesture.frame, { left: `${x1 - box.left}px`, top: `${y1 - box.top}px`, width: `${x2 - x1}px`, height: `${y2 - y1}px` });
    const a = view.toWorld(x1, y1);
    const b = view.toWorld(x2, y2);
    const inside = shown().filter((node) => {
      const { x, y, w, h: high } = boxOf(node);
      return x < b.x && x + w > a.x && y < b.y && y + high > a.y;
    });
    store.set({ selection: inside.map((node) => node._key) });
  }

  // Connecting handles

  function beginConnect() {
    const node = store.get().nodes.get(gesture.key);
    const { handle, direction } = gesture.handle.dataset;
    gesture.from = pointsOf(node).find((point) => point.id === handle && point.type === direction);
    gesture.line = svg("path.edge.new");
    world.querySelector(".lines").append(gesture.line);
    stage.classList.add("connecting");
  }

  function connect(dx, dy, event) {
    const at = view.toWorld(event.clientX, event.clientY);
    const wanted = gesture.from.type === "out" ? "in" : "out";
    gesture.to = nearest(at, wanted, gesture.key);
    const end = gesture.to?.point ?? { ...at, side: "L", dx: -gesture.from.dx, dy: -gesture.from.dy };
    gesture.line.setAttribute("d", curve(null, null, gesture.from, end).path);
    gesture.line.classList.toggle("fits", Boolean(gesture.to));
  }

  function nearest(at, wanted, own) {
    let best = null;
    let least = REACH_PX / view.get().k;
    for (const node of shown()) {
      if (node._key === own) continue;
      for (const point of pointsOf(node)) {
        const away = Math.hypot(point.x - at.x, point.y - at.y);
        if (point.type === wanted && away < least) [least, best] = [away, { node, point }];
      }
    }
    return best;
  }

  function connected({ from, to, key }) {
    if (!to) return;
    if (from.type === "out") edits.connect(key, from.id, to.node._key, to.point.id);
    else edits.connect(to.node._key, to.point.id, key, from.id);
  }

  // Two fingers

  function pinch() {
    if (gesture?.kind === "node" && gesture.moved) (gesture.keys ?? []).forEach(putBack);
    dragged(null);
    stage.classList.remove("dragging", "panning");
    gesture = { kind: "pinch", ...span() };
  }

  function span() {
    const [a, b] = [...pointers.values()];
    return { length: Math.hypot(a.x - b.x, a.y - b.y) || 1, mx: (a.x + b.x) / 2, my: (a.y + b.y) / 2 };
  }

  function pinched() {
    if (pointers.size < 2) return;
    const now = span();
    const box = stage.getBoundingClientRect();
    view.panBy(now.mx - gesture.mx, now.my - gesture.my);
    view.zoomAt(now.mx - box.left, now.my - box.top, now.length / gesture.length);
    Object.assign(gesture, now);
  }

  return { targetAt: (event) => nodeAt(event) ?? edgeAt(event) };
}
