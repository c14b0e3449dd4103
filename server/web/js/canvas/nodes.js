// Draws the nodes of the sheet: one element each, made again only when its node changed.

import { h, replace, setStyle } from "../dom.js";
import { icon } from "../icons.js";
import { boxOf, excerpt, looks, pointsOf, shapeOf, summary, typeName } from "./model.js";
import { labelOf } from "../names.js";

const HEAD_PX = 56;
const ROW_PX = 20;
const LINE_PX = { near: 17, mid: 22 };
const MID_HEAD_PX = 84;
const DONE_MS = 8000;

// `backs` lies behind the edges: notes and frames are drawn there.
export function createNodes(layer, backs, { t, state }) {
  const drawn = new Map(); // key -> {element, node, types, x, y}
  let lit = new Set(); // what an answer rests on that is being given

  // Draws `nodes` (an array in reading order) and takes away what is not among them.
  function draw(nodes) {
    const types = state().nodeTypes;
    const { selection, lang } = state();
    const keys = new Set(nodes.map((node) => node._key));
    for (const [key, entry] of drawn) {
      if (keys.has(key)) continue;
      entry.element.remove();
      drawn.delete(key);
    }
    const chosen = new Set(selection);
    const before = new Map();
    for (const node of nodes) {
      let entry = drawn.get(node._key);
      if (!entry) {
        entry = { element: h("div.node", { tabIndex: 0, role: "button", dataset: { key: node._key } }) };
        drawn.set(node._key, entry);
      }
      if (entry.node !== node || entry.types !== types || entry.lang !== lang) {
        fill(entry.element, node, types);
        Object.assign(entry, { node, types, lang });
      }
      mark(entry.element, chosen.has(node._key));
      entry.element.classList.toggle("lit", lit.has(node._key));
      const into = entry.element.dataset.shape === "note" || entry.element.dataset.shape === "group" ? backs : layer;
      const follows = before.has(into) ? before.get(into).nextSibling : into.firstChild;
      if (follows !== entry.element) into.insertBefore(entry.element, follows);
      before.set(into, entry.element);
    }
  }

  function fill(element, node, types) {
    const box = boxOf(node);
    const shape = shapeOf(node, types);
    const { icon: name, letters, hue, color } = looks(node, types);
    const title = labelOf(node, types);
    const type = typeName(node, types);
    element.dataset.shape = shape;
    element.classList.remove("dragged");
    element.setAttribute("aria-label", t("node.label", { name: title, type }));
    element.title = title.length > 24 || shape === "tile" ? `${title} · ${type}` : "";
    setStyle(element, { transform: `translate(${box.x}px, ${box.y}px)`, width: `${box.w}px`, height: `${box.h}px`, "--hue": String(hue) });
    if (color) element.style.setProperty("--type-color", color);
    else element.style.removeProperty("--type-color");
    const picture = h("span.node-icon", name ? icon(name) : h("span.node-letters", letters));
    replace(element, BODY[shape](node, { title, type, picture, box }), shape === "note" || shape === "group" ? null : dots(node, box));
  }

  const BODY = {
    card: (node, { title, type, picture, box }) => {
      const rows = summary(node, Math.floor((box.h - HEAD_PX - 10) / ROW_PX));
      return h("div.node-body",
        h("div.node-head", picture, h("div.node-names", h("div.node-name", title), h("div.node-type", type))),
        rows.length ? h("div.node-rows", rows.map(([name, value]) => h("div.node-row", h("span.node-field", name), h("span.node-value", value)))) : null,
        words(node, box));
    },
    bar: (node, { title, picture, box }) => h("div.node-body", picture, box.w >= 60 ? h("div.node-name", title) : null),
    tile: (node, { title, picture }) => [h("div.node-body", picture), h("div.node-name", title)],
    note: (node, { title }) => {
      const text = typeof node.data?.text === "string" ? node.data.text : typeof node.data?.content === "string" ? node.data.content : "";
      return h("div.node-body", noteText(text || title));
    },
    group: (node, { title }) => h("div.node-body", h("div.node-name", title)),
  };

  // What a node does, in as many lines as it has room for: near, where no fields are shown, and from further away.
  function words(node, box) {
    const near = Math.floor((box.h - HEAD_PX - 8) / LINE_PX.near);
    const mid = Math.floor((box.h - MID_HEAD_PX - 8) / LINE_PX.mid);
    const text = near > 0 ? excerpt(node, state().nodeTypes) : "";
    return text ? h("div.node-excerpt", { class: mid > 0 ? undefined : "near-only", style: { "--lines": String(near), "--lines-mid": String(mid) } }, text) : null;
  }

  // A note's own headings look like headings; everything else stays the text that it is.
  function noteText(text) {
    return text.slice(0, 4000).split("\n").map((line) => {
      const heading = /^#{1,6} +(.*)/.exec(line);
      return heading ? h("div.note-heading", heading[1]) : h("div.note-line", line || "\u00a0");
    });
  }

  function dots(node, box) {
    return pointsOf(node).filter((point) => point.side !== "0").map((point) =>
      h("span.handle", {
        class: point.type, dataset: { handle: point.id, direction: point.type, side: point.side },
        title: point.display || undefined, "aria-hidden": "true",
        style: { left: `${point.x - box.x}px`, top: `${point.y - box.y}px` },
      }));
  }

  function mark(element, isSelected) {
    element.classList.toggle("selected", isSelected);
    element.setAttribute("aria-pressed", String(isSelected));
  }

  function select(keys) {
    const chosen = new Set(keys);
    for (const [key, { element }] of drawn) mark(element, chosen.has(key));
  }

  // Shows a node elsewhere while it is dragged; the graph is not changed.
  function shift(key, dx, dy) {
    const entry = drawn.get(key);
    if (!entry) return;
    const { x, y } = boxOf(entry.node);
    entry.element.style.transform = `translate(${x + dx}px, ${y + dy}px)`;
    entry.element.classList.toggle("dragged", dx !== 0 || dy !== 0);
  }

  // Keeps only what touches a box in the page (null: all).
  function within(box) {
    for (const { element, node } of drawn.values()) {
      const { x, y, w, h: high } = boxOf(node);
      const isNear = !box || (x < box.x2 && x + w > box.x1 && y < box.y2 && y + high > box.y1);
      if (element.hidden === isNear && (isNear || !element.contains(document.activeElement))) element.hidden = !isNear;
    }
  }

  function show(key) {
    const entry = drawn.get(key);
    if (entry) entry.element.hidden = false;
  }

  function pulse(key) {
    const element = drawn.get(key)?.element;
    if (!element) return;
    element.classList.remove("pulse");
    void element.offsetWidth; // the animation begins again
    element.classList.add("pulse");
    element.addEventListener("animationend", () => element.classList.remove("pulse"), { once: true });
  }

  // Lights nodes until others are lit.
  function light(keys) {
    lit = new Set(keys);
    for (const [key, { element }] of drawn) element.classList.toggle("lit", lit.has(key));
  }

  // Says on a node that it was just changed.
  function markDone(key) {
    const element = drawn.get(key)?.element;
    if (!element) return;
    element.hidden = false;
    element.classList.add("done");
    setTimeout(() => element.classList.remove("done"), DONE_MS);
  }

  return { draw, light, markDone, select, shift, within, show, pulse, element: (key) => drawn.get(key)?.element, get size() { return drawn.size; } };
}
