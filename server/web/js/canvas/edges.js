// Draws the edges of the sheet as curves between handles, with their labels; finds the one under the pointer.

import { h, setStyle, svg } from "../dom.js";
import { curve, endOf, pointsOf, shapeOf } from "./model.js";

const NEAR_PX = 7;
const MAX_LABEL = 60;

export function createEdges(lines, labels, { state, t }) {
  const drawn = new Map(); // key -> {path, label, edge, source, target, curve}
  const byNode = new Map(); // node key -> Set of edge keys
  let captions = new Map(); // handles that say what they are for

  function draw(edges, nodes) {
    const { nodeTypes } = state();
    const keys = new Set(edges.map((edge) => edge._key));
    for (const key of [...drawn.keys()]) if (!keys.has(key)) remove(key);
    for (const edge of edges) {
      const source = nodes.get(edge.source);
      const target = nodes.get(edge.target);
      if (!source || !target) {
        remove(edge._key);
        continue;
      }
      const entry = drawn.get(edge._key);
      if (entry && entry.edge === edge && entry.source === source && entry.target === target) continue;
      place(edge, source, target);
    }
    caption(edges, nodes, nodeTypes);
    select(state().selection);
  }

  function remove(key) {
    const entry = drawn.get(key);
    if (!entry) return;
    entry.path.remove();
    entry.label?.remove();
    byNode.get(entry.edge.source)?.delete(key);
    byNode.get(entry.edge.target)?.delete(key);
    drawn.delete(key);
  }

  function place(edge, source, target) {
    let entry = drawn.get(edge._key);
    if (!entry) {
      entry = { path: svg("path.edge", { "data-key": edge._key, "marker-end": "url(#arrow)" }) };
      lines.append(entry.path);
      drawn.set(edge._key, entry);
    }
    if (entry.edge && (entry.edge.source !== edge.source || entry.edge.target !== edge.target)) {
      byNode.get(entry.edge.source)?.delete(edge._key);
      byNode.get(entry.edge.target)?.delete(edge._key);
    }
    for (const key of [edge.source, edge.target]) {
      if (!byNode.has(key)) byNode.set(key, new Set());
      byNode.get(key).add(edge._key);
    }
    Object.assign(entry, { edge, source, target });
    bend(entry, source, target);
  }

  function bend(entry, source, target) {
    const { edge } = entry;
    const a = endOf(source, edge.sourceHandle, "out");
    const b = endOf(target, edge.targetHandle, "in");
    entry.curve = curve(source, target, a, b);
    entry.path.setAttribute("d", entry.curve.path);
    entry.path.classList.toggle("lost", Boolean(a.lost || b.lost));
    const text = (edge.label || a.display || "").slice(0, MAX_LABEL);
    if (!text) {
      entry.label?.remove();
      entry.label = null;
      return;
    }
    if (!entry.label) {
      entry.label = h("div.edge-label", { dataset: { edge: edge._key } });
      labels.append(entry.label);
    }
    if (entry.label.textContent !== text) entry.label.textContent = text;
    setStyle(entry.label, { transform: `translate(${entry.curve.middle.x}px, ${entry.curve.middle.y}px) translate(-50%, -50%)` });
  }

  // Names what leaves by a handle that no edge uses yet.
  function caption(edges, nodes, types) {
    const used = new Set(edges.map((edge) => `${edge.source}\n${edge.sourceHandle}`));
    const wanted = new Map();
    for (const node of nodes.values()) {
      if (shapeOf(node, types) === "note") continue;
      for (const point of pointsOf(node)) {
        const id = `${node._key}\n${point.id}`;
        if (point.display && point.type === "out" && point.side === "R" && !used.has(id)) wanted.set(id, point);
      }
    }
    const next = new Map();
    for (const [id, point] of wanted) {
      const element = captions.get(id) ?? h("div.handle-label");
      captions.delete(id);
      element.textContent = point.display.slice(0, MAX_LABEL);
      setStyle(element, { transform: `translate(${point.x + 12}px, ${point.y}px) translate(0, -50%)` });
      if (!element.isConnected) labels.append(element);
      next.set(id, element);
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

  // Keeps only what can be seen in a box in the page (null: all; NOTHING: none).
  function within(box) {
    for (const { path, label, curve: line } of drawn.values()) {
      const isNear = !box || touches(line, box);
      if (path.style.display !== (isNear ? "" : "none")) path.style.display = isNear ? "" : "none";
      if (label && label.hidden === isNear) label.hidden = !isNear;
    }
  }

  function select(keys) {
    const chosen = new Set(keys);
    for (const [key, { path, label, edge }] of drawn) {
      const isNear = chosen.has(edge.source) || chosen.has(edge.target);
      path.classList.toggle("selected", chosen.has(key));
      path.classList.toggle("near", isNear);
      label?.classList.toggle("selected", chosen.has(key));
    }
  }

  // The edge that passes close to a point, or null. Units: canvas coordinates; `k` is the zoom.
  function hit(x, y, k) {
    const near = NEAR_PX / k;
    let best = null;
    let least = near;
    for (const [key, { curve: line }] of drawn) {
      for (let i = 0; i <= 24; i += 1) {
        const a = line.at(i / 25);
        const b = line.at((i + 1) / 25);
        const away = distance(x, y, a, b);
        if (away < least) [least, best] = [away, key];
      }
    }
    return best;
  }

  return { draw, follow, select, within, hit, curves: () => [...drawn.values()].map((entry) => entry.curve), middle: (key) => drawn.get(key)?.curve.middle, of: (key) => [...(byNode.get(key) ?? [])] };
}

function touches({ box }, { x1, y1, x2, y2 }) {
  return box.x1 < x2 && box.x2 > x1 && box.y1 < y2 && box.y2 > y1;
}

function distance(x, y, a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = dx * dx + dy * dy;
  const s = length ? Math.min(1, Math.max(0, ((x - a.x) * dx + (y - a.y) * dy) / length)) : 0;
  return Math.hypot(x - a.x - s * dx, y - a.y - s * dy);
}
