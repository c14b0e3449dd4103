// Where an edge runs that leads back: below the nodes that it passes, not through them.

import { boxOf, shapeOf } from "./model.js";

const GAP = 28; // between a node and the edge below it
const UNDER_TILE = 50; // a tile's name is below it
const TURN = 34; // how far it reaches out where it turns

export const leadsBack = (a, b) => a.side === "R" && b.side === "L" && b.x < a.x;

// Returns the height at which an edge from `a` to `b` has a free way: below its source, and where its target is not
// further down, below the target too. `nodes` are those of the sheet.
export function laneOf({ source, target, a, b }, nodes, types) {
  const bottoms = [source, target].map((node) => bottomOf(node, types));
  const isBelow = boxOf(target).y > bottoms[0] + 2 * GAP;
  let lane = (isBelow ? bottoms[0] : Math.max(...bottoms)) + GAP;
  const [left, right] = [b.x - TURN, a.x + TURN];
  const passed = nodes.filter((node) => {
    const { x, w } = boxOf(node);
    return x < right && x + w > left && !["note", "group"].includes(shapeOf(node, types));
  }).map((node) => ({ top: boxOf(node).y, bottom: bottomOf(node, types) })).sort((one, other) => one.top - other.top);
  for (const { top, bottom } of passed) if (top < lane + GAP / 2 && bottom > lane - GAP / 2) lane = bottom + GAP;
  return lane;
}

function bottomOf(node, types) {
  const { y, h } = boxOf(node);
  return y + h + (shapeOf(node, types) === "tile" ? UNDER_TILE : 0);
}

// A curve that leaves `a` to the right, runs to the left at the height `lane` and comes to `b` from the left.
export function loop(a, b, lane) {
  const bend = (from, to, side) => cubic(from, { x: from.x + side * 2 * TURN, y: from.y }, { x: to.x + side * 2 * TURN, y: to.y }, to);
  const parts = [bend(a, { x: a.x, y: lane }, 1), line({ x: a.x, y: lane }, { x: b.x, y: lane }), bend({ x: b.x, y: lane }, b, -1)];
  const at = (t) => parts[Math.min(2, Math.floor(t * 3))](t >= 1 ? 1 : (t * 3) % 1);
  const [out, back] = [a.x + 2 * TURN, b.x - 2 * TURN];
  const path = `M${a.x} ${a.y}C${out} ${a.y} ${out} ${lane} ${a.x} ${lane}L${b.x} ${lane}C${back} ${lane} ${back} ${b.y} ${b.x} ${b.y}`;
  const box = { x1: back, y1: Math.min(a.y, b.y, lane), x2: out, y2: Math.max(a.y, b.y, lane) };
  return { path, at, box, from: a, to: b, middle: { x: (a.x + b.x) / 2, y: lane } };
}

const line = (from, to) => (t) => ({ x: from.x + (to.x - from.x) * t, y: from.y + (to.y - from.y) * t });

function cubic(p, q, r, s) {
  return (t) => {
    const u = 1 - t;
    const [i, j, k, l] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
    return { x: i * p.x + j * q.x + k * r.x + l * s.x, y: i * p.y + j * q.y + k * r.y + l * s.y };
  };
}
