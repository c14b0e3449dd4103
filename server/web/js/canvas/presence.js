// Where the others are on the sheet: their pointers, what they selected and drag. Sent while somebody else is here; never stored.

import { h, setStyle } from "../dom.js";
import { hue, personName } from "../names.js";
import { boxOf } from "./model.js";

const SEND_MS = 100; // between two looks at the pointer
const AGAIN_MS = 5000; // said again, for who came meanwhile
const GONE_MS = 12_000; // who is not heard of for so long is gone
const MOST = 30; // others that are shown
const MOST_KEYS = 20;

export function createPresence({ stage, layer, view, app, preview }) {
  const { store, socket, live } = app;
  const others = new Map(); // member -> {element, frames, x, y, selection, dx, dy, heard}
  let pointer = { x: null, y: null };
  let drag = null; // {dx, dy}: how far this person drags what is selected
  let said = "";
  let timer = 0;

  const isAlone = () => store.get().editors.reduce((sum, one) => sum + one.windows, 0) < 2 && !others.size;

  // Says at most ten times a second where this person is, and only what is another than before.
  function tell() {
    timer ||= setTimeout(() => {
      timer = 0;
      if (isAlone() || !live.isJoined || !socket.isOpen) return;
      const message = { type: "presence", ...pointer, ...drag, selection: store.get().selection.slice(0, MOST_KEYS) };
      if (JSON.stringify(message) === said) return;
      said = JSON.stringify(message);
      socket.send(message);
    }, SEND_MS);
  }

  function point(event) {
    const { x, y } = view.toWorld(event.clientX, event.clientY);
    pointer = event.type === "pointerleave" ? { x: null, y: null } : { x: Math.round(x), y: Math.round(y) };
    tell();
  }

  // Shows what this person drags to the others; null: nothing any more.
  function dragged(by) {
    drag = by;
    tell();
  }

  function take({ graphKey, sheetId, member, userId, gone, x, y, selection, dx, dy }) {
    if (gone || graphKey !== store.get().graphKey || sheetId !== store.get().sheet) return leave(member);
    if (!others.has(member)) {
      if (others.size >= MOST) return undefined;
      const element = h("div.other", { "aria-hidden": "true", style: { "--hue": String(hue(userId)) } }, h("span.other-name", personName(app, userId)));
      layer.append(element);
      others.set(member, { element, frames: [], userId });
      said = ""; // who is new here does not know where this person is
      tell();
    }
    const other = others.get(member);
    putBack(other);
    Object.assign(other, { x, y, selection: selection ?? [], dx: dx ?? 0, dy: dy ?? 0, heard: Date.now() });
    carry(other, other.dx, other.dy);
    draw();
    return undefined;
  }

  // Shows what another drags where it is dragged to; the graph has it where it was.
  function carry({ selection }, dx, dy) {
    const { nodes, sheet } = store.get();
    preview(selection.filter((key) => nodes.has(key) && (nodes.get(key).sheet ?? "0") === sheet), dx, dy);
  }

  const putBack = (other) => (other.dx || other.dy) && carry(other, 0, 0);

  function leave(member) {
    const other = others.get(member);
    others.delete(member);
    if (other) putBack(other);
    for (const element of other ? [other.element, ...other.frames] : []) element.remove();
  }

  // Places pointers and frames for what is seen now.
  function draw() {
    const { x, y, k } = view.get();
    const { nodes, sheet } = store.get();
    for (const other of others.values()) {
      other.element.hidden = !Number.isFinite(other.x) || !Number.isFinite(other.y);
      setStyle(other.element, { transform: `translate(${x + other.x * k}px, ${y + other.y * k}px)` });
      const boxes = other.selection.map((key) => nodes.get(key)).filter((node) => node && (node.sheet ?? "0") === sheet).map(boxOf);
      while (other.frames.length > boxes.length) other.frames.pop().remove();
      boxes.forEach((box, i) => {
        other.frames[i] ??= layer.appendChild(h("div.other-frame", { "aria-hidden": "true", style: { "--hue": other.element.style.getPropertyValue("--hue") } }));
        setStyle(other.frames[i], { transform: `translate(${x + (box.x + other.dx) * k}px, ${y + (box.y + other.dy) * k}px)`, width: `${box.w * k}px`, height: `${box.h * k}px` });
      });
    }
  }

  function look() {
    for (const [member, { heard }] of others) if (Date.now() - heard > GONE_MS) leave(member);
    said = "";
    if (document.visibilityState === "visible") tell();
  }

  socket.on("presence", (message) => message._id === undefined && take(message));
  for (const type of ["pointermove", "pointerleave"]) stage.addEventListener(type, point);
  for (const part of ["selection", "editors"]) store.on(part, tell);
  store.on("names", () => others.forEach(({ element, userId }) => (element.firstChild.textContent = personName(app, userId))));
  for (const part of ["graphKey", "sheet"]) store.on(part, () => [...others.keys()].forEach(leave));
  setInterval(look, AGAIN_MS);
  return { draw, dragged };
}
