// The overview of the sheet in the corner: every node as a block, and the part that is seen.

import { boundsOf, boxOf, looks, shapeOf } from "./model.js";

const WIDTH = 184;
const HEIGHT = 116;
const PAD = 8;
const REST_MS = 1000; // longer where there are many nodes

export function createMinimap(canvas, { view, state }) {
  const pen = canvas.getContext("2d");
  let nodes = [];
  let frame = 0;
  let picture = null; // the nodes, drawn once; the frame is drawn over it
  let map = null;
  let resting = 0;

  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = WIDTH * ratio;
  canvas.height = HEIGHT * ratio;

  // After a change of the nodes the picture is painted again, at most once in a while: moves come many at once.
  function setNodes(next) {
    nodes = next;
    resting ||= setTimeout(() => ((resting = 0), repaint()), picture ? Math.max(REST_MS, nodes.length) : 0);
  }

  function repaint() {
    picture = null;
    redraw();
  }

  function redraw() {
    frame ||= requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    if (!canvas.offsetParent) return;
    const bounds = boundsOf(nodes);
    const seen = view.seen();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (!bounds) return;
    if (!picture) paint(bounds);
    pen.drawImage(picture, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(canvas);
    const [x1, y1] = at(seen.x1, seen.y1);
    const [x2, y2] = at(seen.x2, seen.y2);
    const box = [Math.max(1, x1), Math.max(1, y1), Math.min(WIDTH - 1, x2), Math.min(HEIGHT - 1, y2)];
    if (box[2] <= box[0] || box[3] <= box[1]) return;
    pen.fillStyle = style.caretColor; // the style sheet gives the colours by properties that are computed
    pen.strokeStyle = style.color;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.roundRect(box[0], box[1], box[2] - box[0], box[3] - box[1], 3);
    pen.fill();
    pen.stroke();
  }

  function paint({ x1, y1, x2, y2 }) {
    const scale = Math.min((WIDTH - 2 * PAD) / Math.max(1, x2 - x1), (HEIGHT - 2 * PAD) / Math.max(1, y2 - y1), 0.25);
    map = { scale, x: WIDTH / 2 - ((x1 + x2) / 2) * scale, y: HEIGHT / 2 - ((y1 + y2) / 2) * scale };
    picture = document.createElement("canvas");
    picture.width = canvas.width;
    picture.height = canvas.height;
    const ink = picture.getContext("2d");
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    const types = state().nodeTypes;
    const selected = new Set(state().selection);
    const style = getComputedStyle(canvas);
    let last = null;
    for (const node of nodes) {
      const shape = shapeOf(node, types);
      const { hue, color } = looks(node, types);
      const { x, y, w, h } = boxOf(node);
      const isBack = shape === "note" || shape === "group";
      const fill = selected.has(node._key) ? style.color : isBack ? "#d3a93a" : (color ?? `hsl(${hue} 45% 58%)`);
      if (fill !== last) [ink.globalAlpha, ink.fillStyle] = [isBack ? 0.25 : 0.85, fill];
      last = fill;
      const [px, py] = at(x, y);
      ink.fillRect(px, py, Math.max(2, w * map.scale), Math.max(2, h * map.scale));
    }
  }

  const at = (x, y) => [x * map.scale + map.x, y * map.scale + map.y];

  function go(event) {
    if (!map) return;
    const box = canvas.getBoundingClientRect();
    view.centre((event.clientX - box.left - map.x) / map.scale, (event.clientY - box.top - map.y) / map.scale, { animate: event.type === "pointerdown" });
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    go(event);
    canvas.onpointermove = go;
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (canvas.onpointermove = null));

  return { setNodes, redraw, repaint };
}
