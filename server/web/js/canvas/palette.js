// The palette: a graph's node types by what they do, of which one is added by hand: in the middle of what is seen, or
// after a node, connected to it.

import { fits } from "./connecting.js";
import { boxOf, looks, typeName } from "./model.js";
import { openPicker } from "./picker.js";

const SIDESTEP = 30; // from a node that stands at the very place
const SIZE = { width: 200, height: 100 };
const AFTER = 80; // from the node that a new one follows
const FAMILIES = ["n8n", "node-red"];

export function createPalette({ app, edits, view, canvas, ordered }) {
  const { store, t } = app;

  // The types of the graph's own family, and those that it uses already.
  function usable() {
    const { graph, nodes, nodeTypes } = store.get();
    const family = FAMILIES.includes(graph?.category) ? graph.category : null;
    const used = new Set([...nodes.values()].map((node) => node.type));
    return [...nodeTypes.values()].filter((type) => (type.family ?? null) === family || used.has(type.type) || type.category === "note");
  }

  const groupOf = (type) => (t.has(`palette.group.${type.category}`) ? t(`palette.group.${type.category}`) : t("palette.group.other"));
  const entries = (type) => Object.values(type.handles ?? {}).flatMap((group) => group.point ?? []).filter((point) => point.type === "in");

  // Lets a person choose a type. `from`: {node, point}, the output that the new node is connected to.
  function open(from = null) {
    if (!edits.check()) return;
    const { nodeTypes } = store.get();
    const nameOf = (type) => type.displayName || type.type;
    const entry = (type) => entries(type).find((point) => fits(from.point.accept, point.accept ?? "any"));
    const types = usable().filter((type) => !from || entry(type)).toSorted((one, other) => groupOf(one).localeCompare(groupOf(other)) || nameOf(one).localeCompare(nameOf(other)));
    const find = (text) => {
      const words = text.trim().toLowerCase();
      const found = types.filter((type) => `${nameOf(type)} ${type.type} ${type.description ?? ""}`.toLowerCase().includes(words));
      const rows = found.map((type) => ({ group: groupOf(type), look: looks({ type: type.type }, nodeTypes), name: nameOf(type), about: type.description, choose: () => add(type, from && { ...from, entry: entry(type) }) }));
      return { rows, note: found.length ? "" : t("palette.none") };
    };
    openPicker(app, { title: t(from ? "connect.add_after" : "palette.title"), hint: t("palette.filter"), find });
  }

  async function add(type, from) {
    const { nodeTypes } = store.get();
    const size = type.size ?? SIZE;
    const name = typeName({ type: type.type }, nodeTypes);
    const node = {
      _key: "new", type: type.type, typeVersion: type.version ?? 1, ...(from ? placeAfter(from.node, size) : freePlace(size)), size: { ...size },
      handles: structuredClone(type.handles ?? {}), data: { name },
    };
    const edge = from && { source: from.node._key, sourceHandle: from.point.id, target: "new", targetHandle: String(from.entry.id) };
    const key = (await edits.add([node], edge ? [edge] : []))?.get("new");
    if (!key) return;
    store.set({ selection: [key] });
    canvas.focusNew(key);
    app.toast("ok", t("palette.added", { name }), { action: { label: t("canvas.undo"), run: edits.undo } });
  }

  // To the right of a node, below what stands there.
  function placeAfter(node, { width = SIZE.width, height = SIZE.height }) {
    const { x, y, w, h } = boxOf(node);
    const posX = Math.round(x + w + AFTER);
    let posY = Math.round(y + (h - height) / 2);
    const isTaken = () => ordered().some((one) => {
      const { nodeTypes } = store.get();
      const box = boxOf(one);
      return nodeTypes.get(one.type)?.category !== "note" && box.x < posX + width && box.x + box.w > posX && box.y < posY + height && box.y + box.h > posY;
    });
    while (isTaken()) posY += SIDESTEP;
    return { posX, posY };
  }

  // The middle of what is seen, beside what stands there already.
  function freePlace({ width = SIZE.width, height = SIZE.height }) {
    const { x1, y1, x2, y2 } = view.seen();
    let x = Math.round((x1 + x2 - width) / 2);
    let y = Math.round((y1 + y2 - height) / 2);
    const taken = new Set(ordered().map((node) => `${Math.round(boxOf(node).x)} ${Math.round(boxOf(node).y)}`));
    while (taken.has(`${x} ${y}`)) [x, y] = [x + SIDESTEP, y + SIDESTEP];
    return { posX: x, posY: y };
  }

  return { open };
}
