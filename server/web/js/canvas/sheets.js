// The tabs of a graph's sheets, with what an editor may do to them.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

export function createSheets(element, { app, edits }) {
  const { store, live, t, confirm, prompt } = app;

  function draw() {
    const { graph, sheet, nodes } = store.get();
    const sheets = Object.entries(graph?.sheetsList ?? {});
    const mayEdit = edits.mayEdit() && !graph?.metadata?.noMultipleSheet;
    element.hidden = sheets.length < 2 && !mayEdit;
    const counts = new Map();
    for (const node of nodes.values()) counts.set(node.sheet, (counts.get(node.sheet) ?? 0) + 1);
    replace(element,
      h("div.sheet-tabs", { role: "tablist", "aria-label": t("canvas.sheets") }, sheets.map(([key, name]) => tab(key, name, key === sheet, counts.get(key) ?? 0))),
      mayEdit ? h("button.icon-button", { type: "button", title: t("canvas.add_sheet"), "aria-label": t("canvas.add_sheet"), onclick: add }, icon("plus")) : null,
      mayEdit ? h("button.icon-button", { type: "button", title: t("canvas.rename_sheet"), "aria-label": t("canvas.rename_sheet"), onclick: () => rename(sheet) }, icon("pencil")) : null,
      mayEdit && sheets.length > 1 ? h("button.icon-button", { type: "button", title: t("canvas.delete_sheet"), "aria-label": t("canvas.delete_sheet"), onclick: () => remove(sheet) }, icon("trash")) : null);
    element.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function tab(key, name, isShown, count) {
    return h("button.sheet", {
      type: "button", role: "tab", "aria-selected": String(isShown), tabIndex: isShown ? 0 : -1, dataset: { sheet: key }, title: name,
      onclick: () => live.showSheet(key), ondblclick: () => edits.mayEdit() && rename(key), onkeydown: keyed,
    }, h("span.sheet-name", name), h("span.sheet-count", { "aria-label": t("graphs.nodes", { n: count }) }, String(count)));
  }

  function keyed(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    step(by);
    element.querySelector("[aria-selected=true]")?.focus();
  }

  // Shows the next sheet, or the one before.
  function step(by) {
    const keys = Object.keys(store.get().graph?.sheetsList ?? {});
    const next = keys[keys.indexOf(store.get().sheet) + by];
    if (next !== undefined) live.showSheet(next);
  }

  async function add() {
    const name = await prompt({ title: t("canvas.add_sheet"), label: t("canvas.sheet_name") });
    if (!name || !edits.check()) return;
    const taken = Object.keys(store.get().graph.sheetsList).map(Number).filter(Number.isInteger);
    const key = String(Math.max(-1, ...taken) + 1);
    if (await edits.sheetEdit({ type: "createSheet", name, key }, { type: "deleteSheet", key })) live.showSheet(key);
  }

  async function rename(key) {
    const before = store.get().graph.sheetsList[key];
    const name = await prompt({ title: t("canvas.rename_sheet"), label: t("canvas.sheet_name"), value: before });
    if (name && name !== before) await edits.sheetEdit({ type: "renameSheet", key, name }, { type: "renameSheet", key, name: before });
  }

  async function remove(key) {
    const { graph, nodes } = store.get();
    const n = [...nodes.values()].filter((node) => node.sheet === key).length;
    const text = t("canvas.delete_sheet_sure", { name: graph.sheetsList[key], n });
    if (!(await confirm({ title: t("canvas.delete_sheet"), text, ok: t("inspector.delete"), danger: true })) || !edits.check()) return;
    try {
      await live.edit({ type: "deleteSheet", key });
    } catch (error) {
      app.toast("error", t("canvas.edit_refused", { reason: error.message }));
    }
  }

  return { draw, step };
}
