// Finds nodes of the graph that is open by name, type, key, data or code, on all its sheets.

import { labelOf } from "../names.js";
import { looks, typeName } from "./model.js";
import { openPicker } from "./picker.js";

const SHOWN = 30;
const READ_CHARS = 4000; // of a node's data and code

export function createFinder({ app, canvas }) {
  const { store, t } = app;

  // Opens the search; the node that is chosen is shown.
  function open() {
    if (store.get().graphState !== "ready") return;
    const all = [...store.get().nodes.values()].map((node) => ({ node, ...wordsOf(node) }));
    const find = (text) => {
      const found = ranked(all, text);
      return { rows: found.slice(0, SHOWN).map(({ node }) => row(node)), note: text.trim() ? t("find.found", { n: found.length }) : "" };
    };
    openPicker(app, { title: t("find.title"), hint: t("find.hint"), find });
  }

  function row(node) {
    const { nodeTypes, graph, sheet } = store.get();
    const on = (node.sheet ?? "0") === sheet ? null : graph?.sheetsList?.[node.sheet] ?? node.sheet;
    const about = [typeName(node, nodeTypes), on && t("find.on_sheet", { sheet: on }), canvas.effectOf(node)].filter(Boolean).join(" · ");
    return { look: looks(node, nodeTypes), name: labelOf(node, nodeTypes), about, choose: () => canvas.zoomTo(node._key) };
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
