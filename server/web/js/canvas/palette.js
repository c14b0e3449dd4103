// The palette: a graph's node types, of which one is added by hand in the middle of what is seen.

import { boxOf, looks, typeName } from "./model.js";
import { openPicker } from "./picker.js";

const SIDESTEP = 30; // from a node that stands at the very place
const SIZE = { width: 200, height: 100 };

export function createPalette({ app, edits, view, canvas, ordered }) {
  const { store, t } = app;

  // Lets a person choose a type.
  function open() {
    if (!edits.check()) return;
    const { nodeTypes } = store.get();
    const nameOf = (type) => type.displayName || type.type;
    const types = [...nodeTypes.values()].toSorted((one, other) => nameOf(one).localeCompare(nameOf(other)));
    const find = (text) => {
      const words = text.trim().toLowerCase();
      const found = types.filter((type) => `${nameOf(type)} ${type.type} ${type.description ?? ""}`.toLowerCase().includes(words));
      const rows = found.map((type) => ({ look: looks({ type: type.type }, nodeTypes), name: nameOf(type), about: type.description, choose: () => add(type) }));
      return { rows, note: found.length ? "" : t("palette.none") };
    };
    openPicker(app, { title: t("palette.title"), hint: t("palette.filter"), find });
  }

  async function add(type) {
    const { graphKey, sheet, nodeTypes } = store.get();
    const size = type.size ?? SIZE;
    const name = typeName({ type: type.type }, nodeTypes);
    const node = {
      graphKey, sheet, type: type.type, typeVersion: type.version ?? 1, ...freePlace(size), size: { ...size },
      handles: structuredClone(type.handles ?? {}), data: { name },
    };
    const key = await edits.create(node);
    if (!key) return;
    store.set({ selection: [key] });
    canvas.focusNew(key);
    app.toast("ok", t("palette.added", { name }), { action: { label: t("canvas.undo"), run: edits.undo } });
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
