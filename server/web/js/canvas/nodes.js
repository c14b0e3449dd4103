// Draws the nodes of the sheet that are near what is seen: one element each, made again only when its node changed.

import { h, replace, setStyle } from "../dom.js";
import { icon } from "../icons.js";
import { createMarkdown } from "../markdown.js";
import { boxOf, isIn, looks, pointsOf, shapeOf, typeName } from "./model.js";
import { labelOf } from "../names.js";

const HEAD_PX = 56;
const WIDE_PX = 240; // a card that has room for its picture beside a large name
const TWO_LINES_PX = 36; // a bar that has room for what it does
const LINE_PX = 18; // of what it does
const MID = { head: 88, line: 32 }; // names and lines at their largest
const MAX_NOTE_CHARS = 4000;
const DONE_MS = 8000;
const SPOKEN = ["runs", "stops"]; // marks that screen readers are told of
const HELD_MS = 1500; // so long a node that is shown keeps its element while the view moves to it

// `backs` lies behind the edges: notes and frames are drawn there. `room` is of the texts.
export function createNodes(layer, backs, { t, state, room }) {
  const drawn = new Map(); // key -> {node, types, lang, element}; without an element where it is far from what is seen
  let shown = []; // the nodes in reading order
  let near = []; // the entries with elements
  let isMoved = false; // one of them stands elsewhere or is called otherwise
  let lines = new Map(); // key -> what the node does, null where its data do not show it
  const marks = Object.fromEntries(["lit", "asked", "runs", "stops", "dimmed", "done"].map((name) => [name, new Set()])); // class -> keys

  // Takes in `nodes` (an array in reading order). Returns the keys of those that are others than before, or null where
  // some came or went. `within` then gives elements to those that are seen.
  function draw(nodes) {
    const types = state().nodeTypes;
    const { lang } = state();
    const changed = [];
    let isSame = nodes.length === drawn.size;
    shown = nodes;
    for (const node of nodes) {
      const entry = drawn.get(node._key);
      if (entry && entry.node === node && entry.types === types && entry.lang === lang) continue;
      if (entry) Object.assign(entry, { node, types, lang });
      else drawn.set(node._key, { node, types, lang, element: null });
      isSame &&= Boolean(entry);
      changed.push(node._key);
      if (entry?.element) fill(entry.element, node, types);
      isMoved ||= Boolean(entry?.element);
    }
    if (isSame) return changed;
    const keys = new Set(nodes.map((node) => node._key));
    for (const [key, { element }] of drawn) {
      if (keys.has(key)) continue;
      element?.remove();
      drawn.delete(key);
    }
    return null;
  }

  // Gives elements to what touches a box and takes those of the others. `changed`: the keys of the only
  // nodes that are others than at the last call with this box.
  function within(box, changed = null) {
    const isNear = (entry) => isIn(entry.node, box) || isHeld(entry);
    if (changed?.map((key) => drawn.get(key)).every((entry) => isNear(entry) === Boolean(entry.element))) return spread(false);
    near = [];
    for (const { _key } of shown) {
      const entry = drawn.get(_key);
      if (isNear(entry)) near.push(entry);
      else if (entry.element) {
        entry.element.remove();
        entry.element = null;
      }
    }
    const before = new Map();
    for (const entry of near) {
      const element = mounted(entry);
      const into = layerOf(element);
      const follows = before.has(into) ? before.get(into).nextSibling : into.firstChild;
      if (follows !== element) into.insertBefore(element, follows);
      before.set(into, element);
    }
    return spread(true);
  }

  // Finds the room of all texts below tiles again, where it may be another.
  function spread(isNew) {
    if (!isNew && !isMoved) return;
    isMoved = false;
    const types = state().nodeTypes;
    const boxes = near.map(({ node }) => ({ key: node._key, shape: shapeOf(node, types), ...boxOf(node), name: labelOf(node, types) }));
    room.set(boxes.filter(({ shape }) => shape !== "note" && shape !== "group"));
    near.forEach(bound);
  }

  // The sizes of the texts are others than before.
  const resize = () => near.forEach(bound);

  // Keeps the texts below a tile in their room.
  function bound({ node, element }) {
    const found = element && room.of(node._key);
    if (!found) return;
    setStyle(element, { "--room": `${found.width}px`, "--name-lines": String(found.lines), "--line-room": `${found.line}px` });
    element.classList.toggle("no-line", found.line === 0);
  }

  function isHeld({ element, until = 0 }) {
    return element && (until > performance.now() || element.classList.contains("dragged") || element.contains(document.activeElement));
  }

  const layerOf = (element) => (["note", "group"].includes(element.dataset.shape) ? backs : layer);

  function mounted(entry) {
    if (entry.element) return entry.element;
    const key = entry.node._key;
    entry.element = h("div.node", { tabIndex: 0, role: "button", dataset: { key } });
    fill(entry.element, entry.node, entry.types);
    mark(entry.element, state().selection.includes(key));
    for (const [name, keys] of Object.entries(marks)) entry.element.classList.toggle(name, keys.has(key));
    return entry.element;
  }

  // Gives a node an element wherever it is, for what a person does with it next.
  function show(key) {
    const entry = drawn.get(key);
    if (!entry) return null;
    entry.until = performance.now() + HELD_MS;
    const element = mounted(entry);
    if (!element.isConnected) layerOf(element).append(element);
    return element;
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
    describe(element);
    element.title = title.length > 24 || shape === "tile" ? `${title} · ${type}` : "";
    setStyle(element, { transform: `translate(${box.x}px, ${box.y}px)`, width: `${box.w}px`, height: `${box.h}px`, "--hue": String(hue) });
    if (color) element.style.setProperty("--type-color", color);
    else element.style.removeProperty("--type-color");
    const picture = h("span.node-icon", name ? icon(name) : h("span.node-letters", letters));
    replace(element, BODY[shape](node, { title, type, picture, box }), shape === "note" || shape === "group" ? null : dots(node, box));
    if (shape === "note") element.setAttribute("role", element.querySelector("a, [tabindex]") ? "group" : "button");
  }

  const BODY = {
    card: (node, { title, type, picture, box }) => h("div.node-body",
      h("div.node-head", { class: box.w < WIDE_PX ? "narrow" : undefined }, picture, h("div.node-names", h("div.node-name", title), h("div.node-type", type))),
      effect(node, { near: Math.floor((box.h - HEAD_PX - 8) / LINE_PX), mid: Math.floor((box.h - MID.head) / MID.line) })),
    bar: (node, { title, picture, box }) => h("div.node-body", picture,
      box.w >= 60 ? h("div.node-names", h("div.node-name", title), box.h >= TWO_LINES_PX ? effect(node) : null) : null),
    tile: (node, { title, picture }) => [h("div.node-body", picture), h("div.node-under", h("div.node-name", title), effect(node))],
    note: (node, { title }) => {
      const text = typeof node.data?.text === "string" ? node.data.text : typeof node.data?.content === "string" ? node.data.content : "";
      return h("div.node-body", noteText(text || title));
    },
    group: (node, { title }) => h("div.node-body", h("div.node-name", title)),
  };

  // What a node does, in as many lines as it has room for near and from further away.
  function effect(node, { near = 1, mid = 0 } = {}) {
    return near > 0 ? h("div.node-effect", { class: mid > 0 ? undefined : "near-only", style: { "--lines": String(near), "--lines-mid": String(mid) } }, effectOf(node)) : null;
  }

  // Empty until it is known; then what the data show, or else what the type is for.
  const effectOf = (node) => (lines.has(node._key) ? (lines.get(node._key) ?? state().nodeTypes.get(node.type)?.description ?? "") : "");

  // Takes what nodes do; `keys`: of the only nodes for which that is something else than before.
  function tell(next, keys = drawn.keys()) {
    lines = next;
    for (const key of keys) {
      const { element, node } = drawn.get(key) ?? {};
      element?.querySelector(".node-effect")?.replaceChildren(effectOf(node));
    }
  }

  // Links of a note are for the mouse and the keyboard, so that it is no button then.
  function noteText(text) {
    const element = h("div.note-text.md");
    createMarkdown(element, { isLabel: true }).update(text.slice(0, MAX_NOTE_CHARS));
    return element;
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
    if (element.getAttribute("role") === "button") element.setAttribute("aria-pressed", String(isSelected));
    else element.removeAttribute("aria-pressed");
  }

  // Says to screen readers what the colours say of a node.
  function describe(element) {
    const name = SPOKEN.find((one) => marks[one].has(element.dataset.key));
    if (name) element.setAttribute("aria-description", t(`sources.${name}`));
    else element.removeAttribute("aria-description");
  }

  function select(keys) {
    const chosen = new Set(keys);
    for (const [key, { element }] of drawn) if (element) mark(element, chosen.has(key));
  }

  // Shows a node elsewhere while it is dragged; the graph is not changed.
  function shift(key, dx, dy) {
    const entry = drawn.get(key);
    if (!entry?.element) return;
    const { x, y } = boxOf(entry.node);
    entry.element.style.transform = `translate(${x + dx}px, ${y + dy}px)`;
    entry.element.classList.toggle("dragged", dx !== 0 || dy !== 0);
  }

  function pulse(key) {
    const element = show(key);
    if (!element) return;
    element.classList.remove("pulse");
    void element.offsetWidth; // the animation begins again
    element.classList.add("pulse");
    element.addEventListener("animationend", () => element.classList.remove("pulse"), { once: true });
  }

  // Marks nodes by a class until others are marked.
  function markAll(name, keys) {
    marks[name] = new Set(keys);
    for (const [key, { element }] of drawn) {
      if (!element) continue;
      element.classList.toggle(name, marks[name].has(key));
      if (SPOKEN.includes(name)) describe(element);
    }
  }

  // Says on nodes that they were just changed.
  function markDone(keys) {
    markAll("done", [...marks.done, ...keys]);
    setTimeout(() => markAll("done", [...marks.done].filter((key) => !keys.includes(key))), DONE_MS);
  }

  return { draw, resize, tell, effectOf, markAll, markDone, select, shift, within, show, pulse, near: () => near.map((entry) => entry.node), element: (key) => drawn.get(key)?.element };
}
