// The items of the canvas menu that edit.

import { addItem } from "./context-menu.js";

// Other parts add theirs by `addItem`.
export function addItems({ app, canvas, edits, clipboard, connecting, inspector, palette }) {
  const isNode = ({ kind }) => kind === "node";
  const mayEdit = (when) => (target) => edits.mayEdit() && when(target);
  addItem({ id: "show", label: "menu.show", keys: "Enter", when: ({ key }) => key, run: ({ key }) => canvas.inspect(key) });
  addItem({ id: "ask", label: "menu.ask", when: isNode, run: ({ selection }) => inspector.ask(selection) });
  addItem({ id: "after", label: "connect.add_after", keys: "A", when: mayEdit((target) => isNode(target) && connecting.hasOutput(target.key)), run: ({ key }) => connecting.addAfter(key) });
  addItem({ id: "connect", label: "connect.title", keys: "C", when: mayEdit((target) => isNode(target) && connecting.hasOutput(target.key)), run: ({ key }) => connecting.connectFrom(key) });
  addItem({ id: "cut", label: "menu.cut", keys: "Ctrl X", when: mayEdit(isNode), run: clipboard.cut });
  addItem({ id: "copy", label: "menu.copy", keys: "Ctrl C", when: isNode, run: () => clipboard.copy() });
  for (const family of ["n8n", "node-red"]) addItem({ id: `copy-${family}`, label: `menu.copy.${family}`, when: (target) => isNode(target) && app.store.get().graph?.category === family, run: () => clipboard.copyAs(family) });
  addItem({ id: "duplicate", label: "menu.duplicate", keys: "Ctrl D", when: mayEdit(isNode), run: clipboard.duplicate });
  addItem({ id: "paste", label: "menu.paste", keys: "Ctrl V", when: mayEdit(({ kind }) => kind === "sheet" && clipboard.isFilled), run: ({ x, y }) => clipboard.paste(undefined, { x, y }) });
  addItem({ id: "add", label: "palette.title", keys: "N", when: mayEdit(({ kind }) => kind === "sheet"), run: () => palette.open() });
  const nodeOf = (key) => app.store.get().nodes.get(key);
  for (const pinned of [true, false]) addItem({ id: pinned ? "pin" : "unpin", label: pinned ? "tidy.pin" : "tidy.unpin", when: mayEdit((target) => isNode(target) && (nodeOf(target.key)?.pinned === true) !== pinned), run: ({ key }) => edits.setField("node", nodeOf(key), "pinned", pinned) });
  addItem({ id: "align", label: "menu.align", when: mayEdit(({ selection }) => selection.length > 1), run: () => inspector.open() });
  addItem({ id: "fit", label: "canvas.fit", keys: "F", when: ({ kind }) => kind === "sheet", run: () => canvas.fit() });
  addItem({ id: "delete", label: "inspector.delete", keys: "Del", isDanger: true, when: mayEdit(({ key }) => key), run: () => canvas.removeSelected() });
}
