// Removes what is selected: asked for before where it is much, taken back by a click.

import { labelOf } from "../names.js";

export function createRemoving({ app, edits, stage }) {
  const { store, t } = app;

  async function removeSelected() {
    const { selection, nodes: all, nodeTypes } = store.get();
    if (!selection.length || !edits.check()) return;
    const chosen = selection.filter((key) => all.has(key));
    const name = chosen.length ? labelOf(all.get(chosen[0]), nodeTypes) : "";
    const sure = chosen.length <= 1 || (await app.confirm({ title: t("inspector.delete"), text: t("inspector.delete_sure", { n: chosen.length, name }), ok: t("inspector.delete"), danger: true }));
    if (!sure || !(await edits.remove(selection))) return;
    app.toast("info", t("edit.delete", { n: selection.length, name: name || selection[0] }), { action: { label: t("canvas.undo"), run: edits.undo } });
    stage.focus({ preventScroll: true });
  }

  return { removeSelected };
}
