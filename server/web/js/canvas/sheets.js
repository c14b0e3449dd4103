// The tabs of a graph's sheets. What an editor may do to them is in `sheet-edits.js`.

import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";

export function createSheets(element, { app, edits, change }) {
  const { store, live, t } = app;
  const tabs = h("div.sheet-tabs", { role: "tablist" });
  const tools = h("div.sheet-tools");
  const drawTabs = createParts(tabs);
  const drawTools = createParts(tools);
  let shownSheet = null;
  replace(element, tabs, tools);

  function draw() {
    const { graph, sheet, nodes, lang } = store.get();
    const sheets = Object.entries(graph?.sheetsList ?? {});
    const mayEdit = edits.mayEdit() && !graph?.metadata?.noMultipleSheet;
    element.hidden = sheets.length < 2 && !mayEdit;
    tabs.setAttribute("aria-label", t("canvas.sheets"));
    const counts = new Map();
    for (const node of nodes.values()) counts.set(node.sheet, (counts.get(node.sheet) ?? 0) + 1);
    drawTabs(sheets.map(([key, name]) => ({ key, facts: [name, counts.get(key), lang], make: () => tab(key, name, counts.get(key) ?? 0) })));
    for (const one of tabs.children) choose(one, one.dataset.sheet === sheet);
    const tool = (name, label, onclick) => ({ key: label, facts: [lang], make: () => h("button.icon-button", { type: "button", title: t(label), "aria-label": t(label), onclick }, icon(name)) });
    drawTools([
      ...(mayEdit ? [tool("plus", "canvas.add_sheet", () => change("add")), tool("pencil", "canvas.rename_sheet", () => change("rename", store.get().sheet))] : []),
      ...(mayEdit && sheets.length > 1 ? [tool("trash", "canvas.delete_sheet", () => change("remove", store.get().sheet))] : []),
    ]);
    if (shownSheet !== sheet) element.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    shownSheet = sheet;
  }

  function choose(one, isShown) {
    one.setAttribute("aria-selected", String(isShown));
    one.tabIndex = isShown ? 0 : -1;
  }

  function tab(key, name, count) {
    return h("button.sheet", {
      type: "button", role: "tab", dataset: { sheet: key }, title: name,
      onclick: () => live.showSheet(key), ondblclick: () => edits.mayEdit() && change("rename", key), onkeydown: keyed,
    }, h("span.sheet-name", name), h("span.sheet-count", { "aria-label": t("graphs.nodes", { n: count }) }, String(count)));
  }

  function keyed(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const key = step(by);
    [...tabs.children].find((one) => one.dataset.sheet === key)?.focus();
  }

  // Shows the next sheet, or the one before; returns its key.
  function step(by) {
    const keys = Object.keys(store.get().graph?.sheetsList ?? {});
    const next = keys[keys.indexOf(store.get().sheet) + by];
    if (next !== undefined) live.showSheet(next);
    return next;
  }

  return { draw, step };
}
