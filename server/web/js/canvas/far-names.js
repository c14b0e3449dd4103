// Names over a graph that is seen from far away, at a size of their own, as many as have room.
//
// They are laid out when the view rests. While it moves the picture moves with it: nothing is painted in a frame.

import { labelOf } from "../names.js";
import { boxOf, isIn, shapeOf } from "./model.js";

const SIZE_PX = 11;
const LINE_PX = 15;
const MOST = 400; // names of one picture
const MOST_CHARS = 28;
const SMALL_PX = 26; // a node of less height has its name below it
const MOST_SCALE = 1.4; // of a picture that moves, until it is too blurred or too large

export function createFarNames(canvas, { view, detail, ordered, state }) {
  const pen = canvas.getContext("2d");
  let painted = null; // the view that was painted

  function hide() {
    canvas.hidden = true;
    painted = null;
  }

  // Moves what is painted with the view.
  function follow() {
    if (!painted) return;
    const { x, y, k } = view.get();
    const scale = k / painted.k;
    if (k >= detail.least || scale > MOST_SCALE || scale < 1 / MOST_SCALE) hide();
    else canvas.style.transform = `translate(${x - painted.x * scale}px, ${y - painted.y * scale}px) scale(${scale})`;
  }

  function paint() {
    const now = view.get();
    if (now.k >= detail.least || state().graphState !== "ready") return hide();
    const { w, h } = view.size();
    const ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.max(1, Math.round(w * ratio));
    canvas.height = Math.max(1, Math.round(h * ratio));
    canvas.hidden = false;
    canvas.style.transform = "";
    const style = getComputedStyle(canvas);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(pen, { font: `600 ${SIZE_PX}px ${style.fontFamily}`, textAlign: "center", textBaseline: "middle", lineJoin: "round", lineWidth: 3, strokeStyle: style.caretColor, fillStyle: style.color });
    for (const { text, x, y } of placed(now)) {
      pen.strokeText(text, x, y);
      pen.fillText(text, x, y);
    }
    painted = now;
    return undefined;
  }

  // The names that have room, those of selected nodes first: [{text, x, y}] on the screen.
  function placed({ x, y, k }) {
    const { nodeTypes, selection } = state();
    const chosen = new Set(selection);
    const seen = view.seen();
    const nodes = ordered().filter((node) => isIn(node, seen) && !["note", "group"].includes(shapeOf(node, nodeTypes)));
    const rows = new Map(); // a line of the screen -> the [left, right] that are taken in it
    const found = [];
    for (const node of [...nodes.filter((one) => chosen.has(one._key)), ...nodes.filter((one) => !chosen.has(one._key))]) {
      if (found.length === MOST) break;
      const box = boxOf(node);
      const isSmall = box.h * k < SMALL_PX;
      const [cx, cy] = [x + (box.x + box.w / 2) * k, isSmall ? y + (box.y + box.h) * k + LINE_PX / 2 : y + (box.y + box.h / 2) * k];
      const name = labelOf(node, nodeTypes);
      const text = name.length > MOST_CHARS ? `${name.slice(0, MOST_CHARS - 1)}…` : name;
      if (take(rows, cx, cy, pen.measureText(text).width / 2 + 3)) found.push({ text, x: cx, y: cy });
    }
    return found;
  }

  // Takes the room of a name where it is free.
  function take(rows, cx, cy, half) {
    const lines = [...new Set([cy - LINE_PX / 2, cy + LINE_PX / 2].map((at) => Math.floor(at / LINE_PX)))];
    const isTaken = lines.some((line) => rows.get(line)?.some(([left, right]) => cx - half < right && cx + half > left));
    if (!isTaken) for (const line of lines) rows.set(line, [...(rows.get(line) ?? []), [cx - half, cx + half]]);
    return !isTaken;
  }

  hide();
  return { follow, paint };
}
