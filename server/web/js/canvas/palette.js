// The palette: a graph's node types, of which one is added by hand in the middle of what is seen.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { boxOf, looks, typeName } from "./model.js";

const SIDESTEP = 30; // from a node that stands at the very place
const SIZE = { width: 200, height: 100 };

export function createPalette({ app, edits, view, canvas, ordered }) {
  const { store, t, openDialog } = app;

  // Lets a person choose a type; resolves when the palette is closed.
  function open() {
    if (!edits.check()) return;
    const { nodeTypes } = store.get();
    const types = [...nodeTypes.values()].toSorted((one, other) => nameOf(one).localeCompare(nameOf(other)));
    const list = h("ul.palette");
    const field = h("input", { type: "search", placeholder: t("palette.filter"), "aria-label": t("palette.filter"), autocomplete: "off" });
    const dialog = openDialog({ title: t("palette.title"), content: [field, list] });
    const draw = () => {
      const words = field.value.trim().toLowerCase();
      const found = types.filter((type) => `${nameOf(type)} ${type.type} ${type.description ?? ""}`.toLowerCase().includes(words));
      replace(list, found.length ? found.map((type) => row(type, dialog)) : h("li.muted", t("palette.none")));
    };
    field.addEventListener("input", draw);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") list.querySelector("button")?.click();
    });
    draw();
    field.focus();
  }

  const nameOf = (type) => type.displayName || type.type;

  function row(type, dialog) {
    const { icon: name, letters, hue, color } = looks({ type: type.type }, store.get().nodeTypes);
    const picture = h("span.node-icon", { style: { "--hue": String(hue), ...(color ? { "--type-color": color } : {}) } }, name ? icon(name) : h("span.node-letters", letters));
    return h("li", h("button.palette-type", { type: "button", onclick: () => (dialog.close(), add(type)) },
      picture, h("span.palette-text", h("span.palette-name", nameOf(type)), type.description ? h("span.palette-about", type.description) : null)));
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
