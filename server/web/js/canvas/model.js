// What is drawn of nodes: their names, colours, shapes and the points that edges hang on. Knows no elements.

import { hasIcon, iconOfType } from "../icons.js";

const PALETTE = [252, 212, 174, 142, 38, 18, 340, 292];
const OUTWARD = { T: [0, -1], D: [0, 1], L: [-1, 0], R: [1, 0], 0: [0, 0] };
const COLOR = /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/i;

export function typeName(node, types) {
  return types.get(node.type)?.displayName || node.type;
}

const LOOKS = new WeakMap(); // types -> Map(type -> what it looks like)

// {icon} or {letters}, and the colour that the type's border or category gives.
export function looks(node, types) {
  if (!LOOKS.has(types)) LOOKS.set(types, new Map());
  const known = LOOKS.get(types);
  if (!known.has(node.type)) known.set(node.type, looksOf(node, types));
  return known.get(node.type);
}

function looksOf(node, types) {
  const type = types.get(node.type);
  const border = type?.border?.normal?.color ?? type?.border?.color;
  const known = iconOfType(node.type) ?? (type?.icon && hasIcon(type.icon) ? type.icon : null);
  const letters = typeName(node, types).replace(/[^\p{L}\p{N} ]/gu, "").split(/ +/).map((word) => [...word][0] ?? "").join("").slice(0, 2).toUpperCase();
  return { icon: known, letters: letters || "?", hue: hueOf(type?.category || node.type), color: COLOR.test(border ?? "") ? border : null };
}

function hueOf(text) {
  let sum = 0;
  for (const char of text) sum = (sum * 31 + char.codePointAt(0)) >>> 0;
  return PALETTE[sum % PALETTE.length];
}

export function sizeOf(node) {
  const { width, height } = node.size ?? {};
  return { w: clamp(number(width, 200), 12, 20_000), h: clamp(number(height, 100), 12, 20_000) };
}

export function boxOf(node) {
  return { x: number(node.posX, 0), y: number(node.posY, 0), ...sizeOf(node) };
}

const number = (value, otherwise) => (Number.isFinite(value) ? value : otherwise);
export const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

// note | group | tile | bar | card: how a node of this size and type is drawn.
export function shapeOf(node, types) {
  const { w, h } = sizeOf(node);
  const category = types.get(node.type)?.category;
  if (category === "note" || node.type === "note") return node.type === "group" || types.get(node.type)?.icon === "Group" ? "group" : "note";
  if (h < 64) return "bar";
  if (w <= 130) return "tile";
  return "card";
}

// The points of a node: [{side, id, type, display, x, y, dx, dy}] in canvas coordinates; dx, dy lead outwards.
export function pointsOf(node) {
  const box = boxOf(node);
  const found = [];
  for (const [side, group] of Object.entries(node.handles ?? {})) {
    const points = Array.isArray(group?.point) ? group.point : [];
    points.forEach((point, i) => found.push(place(box, side, group.position, point, i, points.length)));
  }
  return found;
}

function place({ x, y, w, h }, side, position, point, i, count) {
  const [dx, dy] = OUTWARD[side] ?? OUTWARD[0];
  const isFlat = side === "T" || side === "D";
  const length = isFlat ? w : h;
  const isFixed = position === "fix" && Number.isFinite(point.offset);
  const along = isFixed ? clamp(point.offset, 0, length) : (length * (i + 1)) / (count + 1);
  const at = side === "0" ? [x + w / 2, y + h / 2]
    : isFlat ? [x + along, side === "T" ? y : y + h]
    : [side === "L" ? x : x + w, y + along];
  return { side, id: String(point.id), type: point.type, display: point.display ?? "", accept: point.accept ?? "any", x: at[0], y: at[1], dx, dy };
}

// The point of an edge's end; an end whose handle is gone hangs on the node's middle.
export function endOf(node, handle, direction) {
  const points = pointsOf(node);
  const found = points.find((p) => p.id === String(handle) && p.type === direction) ?? points.find((p) => p.id === String(handle));
  if (found) return found;
  const { x, y, w, h } = boxOf(node);
  return { side: "0", id: String(handle), type: direction, x: x + w / 2, y: y + h / 2, dx: 0, dy: 0, lost: true };
}

// A curve between two nodes' points: its SVG path, its middle, and points along it to hit.
export function curve(source, target, a, b) {
  const from = outside(source, a, b);
  const to = outside(target, b, a);
  const reach = clamp(Math.hypot(to.x - from.x, to.y - from.y) * 0.42, 28, 220);
  const backwards = from.dx > 0 && to.x < from.x ? 1.25 : 1;
  const c1 = { x: from.x + from.dx * reach * backwards, y: from.y + from.dy * reach * backwards };
  const c2 = { x: to.x + to.dx * reach * backwards, y: to.y + to.dy * reach * backwards };
  const at = (t) => {
    const u = 1 - t;
    const [p, q, r, s] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
    return { x: p * from.x + q * c1.x + r * c2.x + s * to.x, y: p * from.y + q * c1.y + r * c2.y + s * to.y };
  };
  const path = `M${r1(from.x)} ${r1(from.y)}C${r1(c1.x)} ${r1(c1.y)} ${r1(c2.x)} ${r1(c2.y)} ${r1(to.x)} ${r1(to.y)}`;
  const xs = [from.x, c1.x, c2.x, to.x];
  const ys = [from.y, c1.y, c2.y, to.y];
  const box = { x1: Math.min(...xs), y1: Math.min(...ys), x2: Math.max(...xs), y2: Math.max(...ys) };
  return { path, at, box, from, to, middle: at(0.5) };
}

const r1 = (value) => Math.round(value * 10) / 10;

// A point in a node's middle (side 0) is drawn where the way to the other end leaves the node.
function outside(node, point, other) {
  if (point.side !== "0" || !node) return point;
  const { x, y, w, h } = boxOf(node);
  const [dx, dy] = [other.x - point.x, other.y - point.y];
  if (!dx && !dy) return point;
  const scale = Math.min(w / 2 / Math.abs(dx || 1e-9), h / 2 / Math.abs(dy || 1e-9));
  if (scale >= 1) return point;
  const flat = w * Math.abs(dy) < h * Math.abs(dx);
  return { ...point, x: x + w / 2 + dx * scale, y: y + h / 2 + dy * scale, dx: flat ? Math.sign(dx) : 0, dy: flat ? 0 : Math.sign(dy) };
}

export function touches(box, { x1, y1, x2, y2 }) {
  return box.x1 < x2 && box.x2 > x1 && box.y1 < y2 && box.y2 > y1;
}

// Whether some of a node is in a box.
export function isIn(node, { x1, y1, x2, y2 }) {
  const { x, y, w, h } = boxOf(node);
  return x < x2 && x + w > x1 && y < y2 && y + h > y1;
}

// The box around nodes, or null.
export function boundsOf(nodes) {
  let found = null;
  for (const node of nodes) {
    const { x, y, w, h } = boxOf(node);
    found = found
      ? { x1: Math.min(found.x1, x), y1: Math.min(found.y1, y), x2: Math.max(found.x2, x + w), y2: Math.max(found.y2, y + h) }
      : { x1: x, y1: y, x2: x + w, y2: y + h };
  }
  return found;
}

// The keys of the nodes that a preview adds, changes or moves; of one that only connects, those connected.
export function touchedBy(preview) {
  const of = (name) => preview?.[name] ?? [];
  const keys = [...of("nodesAdded").map((node) => node._key), ...[...of("nodesChanged"), ...of("nodesMoved")].map((one) => one.key)];
  return keys.length ? keys : of("edgesAdded").flatMap((edge) => [edge.source, edge.target]);
}
