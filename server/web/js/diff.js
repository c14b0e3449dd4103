// A unified diff as rows with signs and line numbers: readable without colour.

import { h } from "./dom.js";
import { visible } from "./hidden.js";

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const MAX_ROWS = 2000;

// Reads a unified diff: `{kind: "same"|"added"|"removed"|"gap", before, after, text}` per row. Pure.
export function parseDiff(unified) {
  const rows = [];
  let before = 0;
  let after = 0;
  let inside = false;
  for (const line of unified.split("\n")) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      if (inside) rows.push({ kind: "gap", before: null, after: null, text: "" });
      [before, after, inside] = [Number(hunk[1]), Number(hunk[2]), true];
    } else if (inside && line.startsWith("+")) rows.push({ kind: "added", before: null, after: after++, text: line.slice(1) });
    else if (inside && line.startsWith("-")) rows.push({ kind: "removed", before: before++, after: null, text: line.slice(1) });
    else if (inside) rows.push({ kind: "same", before: before++, after: after++, text: line.slice(1) });
  }
  return rows;
}

// Returns a diff as a table; a screen reader reads `t("diff.added")` and the like before a line.
export function renderDiff(unified, t) {
  const rows = parseDiff(unified);
  const added = rows.filter((row) => row.kind === "added").length;
  const removed = rows.filter((row) => row.kind === "removed").length;
  const table = h("table", h("tbody", ...rows.slice(0, MAX_ROWS).map((row) => renderRow(row, t))));
  return h("div.diff", { role: "group", "aria-label": t("diff.label", { added, removed }) },
    h("div.diff-top",
      h("span.diff-count.is-added", `+${added}`),
      h("span.diff-count.is-removed", `−${removed}`)),
    h("div.diff-scroll", { tabindex: "0" }, table),
    rows.length > MAX_ROWS ? h("p.note", t("diff.more", { count: rows.length - MAX_ROWS })) : "");
}

const SIGNS = { added: "+", removed: "−", same: " ", gap: "⋯" };

function renderRow(row, t) {
  const word = row.kind === "added" || row.kind === "removed" ? h("span.sr-only", `${t(`diff.${row.kind}`)} `) : "";
  return h("tr", { class: `diff-${row.kind}` },
    h("td.diff-no", { "aria-hidden": "true" }, row.before === null ? "" : String(row.before)),
    h("td.diff-no", { "aria-hidden": "true" }, row.after === null ? "" : String(row.after)),
    h("td.diff-sign", { "aria-hidden": "true" }, SIGNS[row.kind]),
    h("td.diff-text", word, visible(row.text)));
}
