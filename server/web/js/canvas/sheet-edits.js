// What an editor does to sheets: adds, renames and deletes them.

export function createSheetEdits({ app, edits }) {
  const { store, live, t, confirm, prompt } = app;

  async function add() {
    const name = await prompt({ title: t("canvas.add_sheet"), label: t("canvas.sheet_name") });
    if (!name || !edits.check()) return;
    const taken = Object.keys(store.get().graph.sheetsList).map(Number).filter(Number.isInteger);
    const key = String(Math.max(-1, ...taken) + 1);
    if (await edits.sheetEdit({ type: "createSheet", name, key })) live.showSheet(key);
  }

  async function rename(key) {
    const before = store.get().graph.sheetsList[key];
    const name = await prompt({ title: t("canvas.rename_sheet"), label: t("canvas.sheet_name"), value: before });
    if (name && name !== before) await edits.sheetEdit({ type: "renameSheet", key, name });
  }

  async function remove(key) {
    const { graph, nodes } = store.get();
    const n = [...nodes.values()].filter((node) => node.sheet === key).length;
    const text = t("canvas.delete_sheet_sure", { name: graph.sheetsList[key], n });
    if (!(await confirm({ title: t("canvas.delete_sheet"), text, ok: t("inspector.delete"), danger: true })) || !edits.check()) return;
    await edits.sheetEdit({ type: "deleteSheet", key });
  }

  return { add, rename, remove };
}
