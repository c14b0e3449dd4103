// Draws the edges of the sheet as curves between handles, with their labels, where they can be seen; finds the one under
// the pointer. `room` is of the labels.

import { h, setStyle, svg } from "../dom.js";
import { laneOf, leadsBack, loop } from "./loops.js";
import { curve, endOf, pointsOf, shapeOf, touches } from "./model.js";

const NEAR_PX = 7;
const MAX_LABEL = 60;

export function createEdges(lines, labels, { state, room }) {
  const drawn = new Map(); // key -> {edge, source, target, curve, text, isLost, path, label}; without path where it is not seen
  const byNode = new Map(); // node key -> Set of edge keys
  let captions = new Map(); // handles that say what they are for
  let known = {}; // the edges and the sheet that are drawn
  let marked = {}; // class -> keys
  let around = {}; // the nodes and the sheet of `onSheet`, and what it found

  // `changed`: the keys of the nodes that are others than before (null: all may be). Returns whether all others stayed.
  function draw(changed) {
    const { edges, nodes, sheet } = state();
    const isKnown = changed && known.edges === edges && known.sheet === sheet;
    known = { edges, sheet };
    if (isKnown) {
      for (const key of new Set(changed.flatMap(of))) place(drawn.get(key).edge, nodes);
      return true;
    }
    for (const key of [...drawn.keys()]) if (!edges.has(key) || (edges.get(key).sheet ?? "0") !== sheet) remove(key);
    for (const edge of edges.values()) if ((edge.sheet ?? "0") === sheet) place(edge, nodes);
    return false;
  }

  function remove(key) {
    const entry = drawn.get(key);
    if (!entry) return;
    hide(entry);
    byNode.get(entry.edge.source)?.delete(key);
    byNode.get(entry.edge.target)?.delete(key);
    drawn.delete(key);
  }

  function place(edge, nodes) {
    const [source, target] = [nodes.get(edge.source), nodes.get(edge.target)];
    const isHere = [source, target].every((node) => node && (node.sheet ?? "0") === known.sheet);
    let entry = drawn.get(edge._key);
    if (entry && (!isHere || entry.edge.source !== edge.source || entry.edge.target !== edge.target)) {
      remove(edge._key);
      entry = null;
    }
    if (!isHere || (entry?.edge === edge && entry.source === source && entry.target === target)) return;
    if (!entry) {
      entry = { path: null, label: null };
      drawn.set(edge._key, entry);
      for (const key of [edge.source, edge.target]) byNode.set(key, (byNode.get(key) ?? new Set()).add(edge._key));
    }
    Object.assign(entry, { edge, source, target });
    bend(entry, source, target);
  }

  function bend(entry, source, target) {
    const { edge } = entry;
    const a = endOf(source, edge.sourceHandle, "out");
    const b = endOf(target, edge.targetHandle, "in");
    entry.curve = leadsBack(a, b) ? loop(a, b, laneOf({ source, target, a, b }, onSheet(), state().nodeTypes)) : curve(source, target, a, b);
    entry.isLost = Boolean(a.lost || b.lost);
    entry.text = (edge.label || a.display || "").slice(0, MAX_LABEL);
    if (entry.path) paint(entry);
  }

  // The nodes of the sheet, found once for all edges that lead back.
  function onSheet() {
    const { nodes, sheet } = state();
    if (around.nodes !== nodes || around.sheet !== sheet) around = { nodes, sheet, list: [...nodes.values()].filter((node) => (node.sheet ?? "0") === sheet) };
    return around.list;
  }

  function paint(entry) {
    entry.path.setAttribute("d", entry.curve.path);
    entry.path.classList.toggle("lost", entry.isLost);
    if (!entry.text) {
      entry.label?.remove();
      entry.label = null;
      return;
    }
    if (!entry.label) {
      entry.label = h("div.edge-label", { dataset: { edge: entry.edge._key } });
      labels.append(entry.label);
    }
    if (entry.label.textContent !== entry.text) entry.label.textContent = entry.text;
    put(entry.label, entry.curve.middle);
  }

  const put = (label, { x, y }) => setStyle(label, { transform: `translate(${x}px, ${y}px) translate(-50%, -50%)` });

  // Moves the labels to where they cover nothing. One without room is shown only from near, where it is easily told apart.
  function spread() {
    const shown = [...drawn.values()].filter((entry) => entry.label);
    room.placed(shown.map(({ text, curve: { at } }) => ({ text, at }))).forEach((point, i) => {
      shown[i].label.hidden = !point && !room.isNear;
      put(shown[i].label, point ?? shown[i].curve.middle);
    });
  }

  function hide(entry) {
    entry.path?.remove();
    entry.label?.remove();
    entry.path = entry.label = null;
  }

  // Gives elements to what can be seen in a box and takes those of the others; names the free handles of
  // the nodes that are near. `changed`: the keys of the only nodes that are others than at the last call with this box.
  function within(box, near, changed = null) {
    let isNew = false;
    for (const key of changed ? new Set(changed.flatMap(of)) : drawn.keys()) {
      const entry = drawn.get(key);
      const isNear = touches(entry.curve.box, box);
      if (isNear === Boolean(entry.path)) continue;
      if (!isNear) hide(entry);
      else {
        entry.path = svg("path.edge", { "data-key": key, "marker-end": "url(#arrow)" });
        lines.append(entry.path);
        paint(entry);
        isNew = true;
      }
    }
    caption(near);
    if (isNew) select(state().selection);
    spread();
  }

  // Names what leaves by a handle that no edge uses yet.
  function caption(near) {
    const { nodeTypes } = state();
    const next = new Map();
    for (const node of near) {
      if (shapeOf(node, nodeTypes) === "note") continue;
      const used = new Set(of(node._key).map((key) => drawn.get(key).edge).filter((edge) => edge.source === node._key).map((edge) => String(edge.sourceHandle)));
      for (const point of pointsOf(node)) {
        if (!point.display || point.type !== "out" || point.side !== "R" || used.has(point.id)) continue;
        const id = `${node._key}\n${point.id}`;
        const element = captions.get(id) ?? h("div.handle-label");
        captions.delete(id);
        element.textContent = point.display.slice(0, MAX_LABEL);
        setStyle(element, { transform: `translate(${point.x + 12}px, ${point.y}px) translate(0, -50%)` });
        if (!element.isConnected) labels.append(element);
        next.set(id, element);
      }
    }
    for (const element of captions.values()) element.remove();
    captions = next;
  }

  // Draws the edges of nodes that are dragged: `at` gives a node as it is shown now.
  function follow(keys, at) {
    const touched = new Set();
    for (const key of keys) for (const edge of byNode.get(key) ?? []) touched.add(edge);
    for (const key of touched) {
      const entry = drawn.get(key);
      bend(entry, at(entry.source), at(entry.target));
    }
  }

  function select(keys) {
    const chosen = new Set(keys);
    for (const [key, { path, label, edge }] of drawn) {
      if (!path) continue;
      path.classList.toggle("selected", chosen.has(key));
      path.classList.toggle("near", chosen.has(edge.source) || chosen.has(edge.target));
      for (const [name, marks] of Object.entries(marked)) path.classList.toggle(name, marks.has(key));
      label?.classList.toggle("selected", chosen.has(key));
    }
  }

  // Marks edges by classes until others are marked: {path, runs, stops, dimmed}, each a set of keys.
  function markAll(next) {
    marked = next;
    select(state().selection);
  }

  const of = (key) => [...(byNode.get(key) ?? [])];

  // The edge that passes close to a point, or null. Units: canvas coordinates; `k` is the zoom.
  function hit(x, y, k) {
    const near = NEAR_PX / k;
    let best = null;
    let least = near;
    for (const [key, { curve: line }] of drawn) {
      if (!touches(line.box, { x1: x - near, y1: y - near, x2: x + near, y2: y + near })) continue;
      for (let i = 0; i <= 24; i += 1) {
        const a = line.at(i / 25);
        const b = line.at((i + 1) / 25);
        const away = distance(x, y, a, b);
        if (away < least) [least, best] = [away, key];
      }
    }
    return best;
  }

  return { draw, spread, follow, select, within, hit, markAll, curves: () => [...drawn.values()].map((entry) => entry.curve) };
}

function distance(x, y, a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = dx * dx + dy * dy;
  const s = length ? Math.min(1, Math.max(0, ((x - a.x) * dx + (y - a.y) * dy) / length)) : 0;
  return Math.hypot(x - a.x - s * dx, y - a.y - s * dy);
}
