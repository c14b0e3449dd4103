// Connects nodes without dragging: to one that is chosen from a list, or to a new one of a type that fits.

import { labelOf } from "../names.js";
import { looks, pointsOf } from "./model.js";
import { openPicker } from "./picker.js";

export const fits = (a, b) => a === "any" || b === "any" || a === b;

export function createConnecting({ app, edits, palette, canvas, ordered }) {
  const { store, t, toast } = app;
  const points = (node, type) => pointsOf(node).filter((point) => point.type === type);

  // Lets a person choose a type; the new node is connected to an output of this one.
  async function addAfter(key, id) {
    const from = await output(key, id, "connect.add_after");
    if (from) palette.open(from);
  }

  // Lets a person choose the node that an output of this one leads to.
  async function connectFrom(key) {
    const from = await output(key, undefined, "connect.title");
    if (!from) return;
    const { nodeTypes } = store.get();
    const targets = ordered().filter((node) => node._key !== key).flatMap((node) => {
      const found = points(node, "in").filter((point) => fits(from.point.accept, point.accept));
      return found.map((point) => ({ node, point, name: labelOf(node, nodeTypes), about: found.length > 1 ? point.display || point.id : "" }));
    });
    const find = (text) => {
      const words = text.trim().toLowerCase();
      const rows = targets.filter(({ name, node }) => `${name} ${node._key}`.toLowerCase().includes(words)).slice(0, 100).map(({ node, point, name, about }) =>
        ({ look: looks(node, nodeTypes), name, about, choose: () => connect(from, node, point) }));
      return { rows, note: rows.length ? "" : t("connect.none") };
    };
    openPicker(app, { title: t("connect.title"), hint: t("find.hint"), find });
  }

  async function connect({ node, point }, target, entry) {
    if (await edits.connect(node._key, point.id, target._key, entry.id)) toast("ok", t("connect.done"), { action: { label: t("canvas.undo"), run: edits.undo } });
    canvas.focusNode(node._key);
  }

  // The output that is meant: the one named, the only one, or the one that is chosen.
  async function output(key, id, title) {
    const node = store.get().nodes.get(key);
    if (!node || !edits.check()) return null;
    const found = points(node, "out").filter((point) => id === undefined || point.id === id);
    if (!found.length) toast("warn", t("connect.no_output"));
    if (found.length < 2) return found.length ? { node, point: found[0] } : null;
    const look = looks(node, store.get().nodeTypes);
    return new Promise((resolve) => {
      const rows = found.map((point) => ({ look, name: point.display || point.id, choose: () => resolve({ node, point }) }));
      const dialog = openPicker(app, { title: t(title), hint: t("connect.output"), find: (text) => ({ rows: rows.filter((row) => row.name.toLowerCase().includes(text.trim().toLowerCase())), note: "" }) });
      dialog.closed.then(() => resolve(null));
    });
  }

  return { addAfter, connectFrom, hasOutput: (key) => Boolean(store.get().nodes.get(key) && points(store.get().nodes.get(key), "out").length) };
}
