// A large sheet from far away, painted in one picture: blocks and lines, where single elements could not be read.
//
// The elements stay for keys and screen readers; what is painted is not in the page a second time.

import { boxOf, looks, shapeOf } from "./model.js";

const MOST_PIXELS = 1.5; // a screen's pixels to a point

export function createFar(canvas, { view, state }) {
  const pen = canvas.getContext("2d");
  let isOn = false;
  let order = [];
  let curves = () => [];
  let picture = null; // {groups, lines}: made once for a graph, painted with every move
  let colors = null;
  let lights = {}; // what an answer rests on: class -> keys

  // The nodes in reading order, and a function that gives the curves of the edges.
  function set(nodes, edges) {
    order = nodes;
    curves = edges;
    picture = null;
  }

  function show(wanted) {
    if (wanted === isOn) return;
    isOn = wanted;
    canvas.hidden = !wanted;
    picture = null;
  }

  function resize() {
    const { w, h } = view.size();
    const ratio = Math.min(MOST_PIXELS, devicePixelRatio || 1);
    canvas.width = Math.max(1, Math.round(w * ratio));
    canvas.height = Math.max(1, Math.round(h * ratio));
  }

  function repaint() {
    picture = colors = null;
    paint();
  }

  function paint() {
    if (!isOn) return;
    const { w } = view.size();
    const { x, y, k } = view.get();
    const ratio = canvas.width / Math.max(1, w);
    picture ??= drawn();
    colors ??= readColors();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(k * ratio, 0, 0, k * ratio, x * ratio, y * ratio);
    for (const { color, hue, isBack, path } of picture.groups.values()) if (isBack) fill(path, { color, hue, isBack }, k);
    pen.strokeStyle = colors.edge;
    pen.lineWidth = Math.min(4, 0.9 / k);
    pen.stroke(picture.lines);
    for (const { color, hue, isBack, path } of picture.groups.values()) if (!isBack) fill(path, { color, hue }, k);
    mark(k);
  }

  function fill(path, { color, hue, isBack }, k) {
    const type = color ?? `hsl(${hue} 60% ${colors.isDark ? 76 : 36}%)`;
    pen.fillStyle = isBack ? colors.note : colors.surface;
    pen.fill(path);
    if (isBack) return;
    pen.globalAlpha = 0.24;
    pen.fillStyle = type;
    pen.fill(path);
    pen.globalAlpha = 1;
    pen.strokeStyle = type;
    pen.lineWidth = 1 / k;
    pen.stroke(path);
  }

  // Takes the sets of keys that are painted as highlighted.
  function light({ lit, runs, stops }) {
    lights = { lit: new Set([...lit].filter((key) => !runs.has(key) && !stops.has(key))), runs, stops };
    paint();
  }

  function mark(k) {
    for (const [name, keys] of Object.entries({ ...lights, accent: new Set(state().selection) })) frame(keys, colors[name], k, name === "stops");
  }

  function frame(keys, color, k, isDashed) {
    if (!keys.size) return;
    pen.strokeStyle = color;
    pen.lineWidth = 3 / k;
    pen.setLineDash(isDashed ? [6 / k, 4 / k] : []);
    for (const node of order) {
      if (!keys.has(node._key)) continue;
      const { x, y, w, h } = boxOf(node);
      pen.strokeRect(x, y, w, h);
    }
    pen.setLineDash([]);
  }

  // Nodes of one colour are one path, and so are all edges: few strokes, however many there are.
  function drawn() {
    const types = state().nodeTypes;
    const groups = new Map();
    for (const node of order) {
      const { color, hue } = looks(node, types);
      const isBack = ["note", "group"].includes(shapeOf(node, types));
      const name = isBack ? "back" : color ?? String(hue);
      if (!groups.has(name)) groups.set(name, { color, hue, isBack, path: new Path2D() });
      const { x, y, w, h } = boxOf(node);
      groups.get(name).path.rect(x, y, w, h);
    }
    const lines = new Path2D();
    for (const { from, to } of curves()) {
      lines.moveTo(from.x, from.y);
      lines.lineTo(to.x, to.y);
    }
    return { groups, lines };
  }

  // The style sheet gives the colours by properties that are computed.
  function readColors() {
    const style = getComputedStyle(canvas);
    return {
      edge: style.color, surface: style.caretColor, accent: style.borderTopColor, note: style.outlineColor,
      lit: style.borderRightColor, runs: style.borderBottomColor, stops: style.borderLeftColor,
      isDark: style.columnRuleColor === "rgb(0, 0, 0)",
    };
  }

  // The uppermost node at a point, or nothing. Units: canvas coordinates.
  function hit(px, py) {
    if (!isOn) return undefined;
    return order.findLast((node) => {
      const { x, y, w, h } = boxOf(node);
      return px >= x && px <= x + w && py >= y && py <= y + h;
    })?._key;
  }

  canvas.hidden = true;
  return { set, show, light, resize, paint, repaint, hit, get isOn() { return isOn; } };
}
