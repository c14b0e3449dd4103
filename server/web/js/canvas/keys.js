// Keys on the canvas. Returns whether a key was one of its own.

const STEP = 10;
const FAR = 50;
const PAN = 80;
const QUIET_MS = 450;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function createCanvasKeys({ app, canvas, view, edits, use, inspector, sheets, stage, ordered, isGhostShown }) {
  const { store } = app;
  let nudges = null; // {x, y, keys, from, timer}: steps of the arrow keys that make one edit

  function key(event) {
    if (store.get().graphState !== "ready") return false;
    const isHere = stage.contains(document.activeElement);
    if (event.ctrlKey || event.metaKey) return withControl(event, isHere);
    if (event.altKey) return false;
    if (event.key === "Escape") return escape(isHere);
    if (!isHere) return false;
    if (ARROWS[event.key]) return arrow(...ARROWS[event.key], event.shiftKey);
    return PLAIN[event.key] ? PLAIN[event.key](event) !== false : false;
  }

  const PLAIN = {
    "+": () => view.zoomBy(1.25),
    "=": () => view.zoomBy(1.25),
    "-": () => view.zoomBy(0.8),
    _: () => view.zoomBy(0.8),
    0: () => view.zoomTo(1),
    n: () => use("palette"),
    N: () => use("palette"),
    a: () => withNode("addAfter"),
    A: () => withNode("addAfter"),
    c: () => withNode("connectFrom"),
    C: () => withNode("connectFrom"),
    f: () => canvas.fit(),
    F: () => canvas.fit(),
    PageUp: () => sheets.step(-1),
    PageDown: () => sheets.step(1),
    Delete: () => remove(),
    Backspace: () => remove(),
    Enter: () => open(),
    " ": () => choose(),
    Tab: (event) => step(event.shiftKey ? -1 : 1),
  };

  const focused = () => document.activeElement?.closest?.(".node")?.dataset.key;

  function withNode(action) {
    const key = focused() ?? store.get().selection[0];
    if (!store.get().nodes.has(key)) return false;
    use("connecting", action, key);
    return true;
  }

  function withControl(event, isHere) {
    const name = event.key.toLowerCase();
    if (name === "z") edits[event.shiftKey ? "redo" : "undo"]();
    else if (name === "y") edits.redo();
    else if (name === "f" || name === "k") canvas.find();
    else if (name === "a" && isHere) store.set({ selection: ordered().map((node) => node._key) });
    else if (name === "d" && isHere) use("clipboard", "duplicate");
    else return false;
    return true;
  }

  function escape(isHere) {
    if (isGhostShown() && isHere) canvas.hideGhosts();
    else if (inspector()?.isOpen) inspector().close();
    else if (store.get().selection.length && isHere) store.set({ selection: [] });
    else if (isHere && canvas.clearSources()) return true;
    else if (focused()) stage.focus({ preventScroll: true });
    else return false;
    return true;
  }

  // From node to node; from the last one on to what follows on the page.
  function step(by) {
    const keys = ordered().map((node) => node._key);
    const now = focused();
    const at = now === undefined ? (by > 0 ? -1 : document.activeElement === stage ? 0 : keys.length) : keys.indexOf(now);
    const next = keys[at + by];
    if (next === undefined) {
      if (now !== undefined && by < 0) stage.focus({ preventScroll: true });
      return now !== undefined && by < 0;
    }
    canvas.focusNode(next);
    store.set({ selection: [next] });
    return true;
  }

  function open() {
    const key = focused() ?? store.get().selection[0];
    if (!key) return false;
    canvas.inspect(key);
    return true;
  }

  function choose() {
    const now = focused();
    if (!now) return false;
    const { selection } = store.get();
    store.set({ selection: selection.includes(now) ? selection.filter((one) => one !== now) : [...selection, now] });
    return true;
  }

  function arrow(dx, dy, isFar) {
    const { selection, nodes } = store.get();
    const keys = selection.filter((one) => nodes.has(one));
    if (!keys.length) {
      view.panBy(-dx * PAN, -dy * PAN);
      return true;
    }
    if (!nudges && !edits.check()) return true;
    const length = isFar ? FAR : STEP;
    nudges ??= { x: 0, y: 0, keys, from: nodes };
    nudges.x += dx * length;
    nudges.y += dy * length;
    canvas.preview(nudges.keys, nudges.x, nudges.y);
    clearTimeout(nudges.timer);
    nudges.timer = setTimeout(sendNudges, QUIET_MS);
    return true;
  }

  // What was moved just before is moved first.
  function remove() {
    if (nudges) sendNudges();
    canvas.removeSelected();
  }

  async function sendNudges() {
    const { x, y, keys, from, timer } = nudges;
    clearTimeout(timer);
    nudges = null;
    edits.tellGone(keys, from);
    const { nodes } = store.get();
    const moves = keys.filter((one) => nodes.has(one)).map((one) => ({ key: one, x: (nodes.get(one).posX ?? 0) + x, y: (nodes.get(one).posY ?? 0) + y }));
    if ((x || y) && (await edits.move(moves))) return;
    canvas.preview(keys, 0, 0);
  }

  return { key };
}
