// Finds nodes of the graph that is open by name, type, key, data or code, on all its sheets.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { excerpt, looks, typeName } from "./model.js";
import { labelOf } from "../names.js";

const SHOWN = 30;
const READ_CHARS = 4000; // of a node's data and code

export function createFinder({ app, canvas }) {
  const { store, t, openDialog } = app;

  // Opens the search; the node that is chosen is shown.
  function open() {
    if (store.get().graphState !== "ready") return;
    const all = [...store.get().nodes.values()].map((node) => ({ node, ...wordsOf(node) }));
    const list = h("ul.palette");
    const told = h("p.muted", { role: "status" });
    const field = h("input", { type: "search", placeholder: t("find.hint"), "aria-label": t("find.hint"), autocomplete: "off" });
    const dialog = openDialog({ title: t("find.title"), content: [field, told, list] });
    const draw = () => {
      const found = ranked(all, field.value);
      told.textContent = field.value.trim() ? t("find.found", { n: found.length }) : "";
      replace(list, found.slice(0, SHOWN).map(({ node }) => h("li", row(node, dialog))));
    };
    field.addEventListener("input", draw);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") list.querySelector("button")?.click();
      else if (event.key === "Escape") dialog.close(); // a search field would only be emptied
      else if (event.key === "ArrowDown") list.querySelector("button")?.focus();
      else return;
      event.preventDefault();
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (!step) return;
      event.preventDefault();
      (event.target.closest("li")?.[step]?.querySelector("button") ?? (event.key === "ArrowUp" ? field : event.target)).focus();
    });
    draw();
    field.focus();
  }

  function row(node, dialog) {
    const { nodeTypes, graph, sheet } = store.get();
    const { icon: name, letters, hue, color } = looks(node, nodeTypes);
    const picture = h("span.node-icon", { style: { "--hue": String(hue), ...(color ? { "--type-color": color } : {}) } }, name ? icon(name) : h("span.node-letters", letters));
    const on = (node.sheet ?? "0") === sheet ? null : graph?.sheetsList?.[node.sheet] ?? node.sheet;
    const about = [typeName(node, nodeTypes), on && t("find.on_sheet", { sheet: on }), excerpt(node, nodeTypes)].filter(Boolean).join(" · ");
    return h("button.palette-type", { type: "button", onclick: () => (dialog.close(), canvas.zoomTo(node._key)) },
      picture, h("span.palette-text", h("span.palette-name", labelOf(node, nodeTypes)), h("span.palette-about", about)));
  }

  function wordsOf(node) {
    const { nodeTypes } = store.get();
    const name = `${labelOf(node, nodeTypes)} ${node._key}`.toLowerCase();
    const data = node.data === null || node.data === undefined ? "" : JSON.stringify(node.data);
    return { name, rest: `${typeName(node, nodeTypes)} ${data.slice(0, READ_CHARS)} ${(node.process ?? "").slice(0, READ_CHARS)}`.toLowerCase() };
  }

  return { open };
}

// Those that hold all words: first where the name begins with what is written, then where it holds it.
function ranked(all, text) {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/).filter(Boolean);
  const score = ({ name }) => (name.startsWith(wanted) ? 0 : words.every((word) => name.includes(word)) ? 1 : 2);
  const found = all.filter(({ name, rest }) => words.every((word) => name.includes(word) || rest.includes(word)));
  return found.toSorted((one, other) => score(one) - score(other));
}
