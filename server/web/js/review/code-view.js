// A proposal's code over the whole page: in one or side by side, coloured, with what differs marked in its place.

import { h, replace } from "../dom.js";
import { visible } from "../hidden.js";
import { languageOf, linesOfWords } from "../highlight.js";
import { kept } from "../kept.js";
import { fieldName, labelOf } from "../names.js";
import { isOpen } from "./approvals.js";
import { codesOf, differenceOf, foldsOf, pairsOf, wholeRows } from "./codes.js";

const LAYOUTS = ["one", "two"];
const WIDE_PX = 1700; // from here on both sides have room for a hundred characters
const CHECKED = new Set(["javascript", "python"]); // by the service, when it was proposed
const SIGNS = { added: "+", removed: "−", same: "" };

export const hasCode = ({ preview }) => codesOf(preview).length > 0;

// Opens it for a card; its buttons do what those of the card do.
export function openCode(app, card) {
  const { t, store } = app;
  const { approval } = card;
  const { nodes, nodeTypes } = store.get();
  const codes = codesOf(approval.preview, (one) => (one.displayName ?? labelOf(one, nodeTypes)));
  let layout = kept.get("code.layout") ?? (innerWidth < WIDE_PX ? "one" : "two");
  const body = h("div.code-parts", { tabIndex: -1 });
  const choice = h("div.segments", { role: "group", "aria-label": t("code.layout") }, LAYOUTS.map((name) => h("button", { type: "button", dataset: { name }, onclick: () => choose(name) }, t(`code.layout.${name}`))));
  const act = (what, run) => h("button", { type: "button", class: what === "approve" ? "primary" : undefined, disabled: Boolean(card.obstacle(what)), onclick: () => decide(run) }, t(`card.${what}`));
  const decide = (run) => (dialog.close(), run());
  const actions = isOpen(approval) && !approval.objection ? [act("edit", card.openEdit), act("reject", () => card.openRemark("reject")), act("approve", () => card.approve())] : [];
  const dialog = app.openDialog({ title: approval.title, content: [choice, body], actions });
  dialog.element.classList.add("code-view");
  dialog.element.addEventListener("keydown", onKey);
  draw();

  function choose(name) {
    layout = name;
    kept.put("code.layout", name);
    draw();
  }

  function draw() {
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.name === layout));
    replace(body, codes.map(codeSection));
  }

  // The keys of the review act here too.
  function onKey(event) {
    const what = { a: "approve", r: "reject", e: "edit" }[event.key.toLowerCase()];
    if (!what || event.ctrlKey || event.metaKey || event.altKey || !actions.length) return;
    event.preventDefault();
    event.stopPropagation();
    const button = actions[["edit", "reject", "approve"].indexOf(what)];
    if (!button.disabled) button.click();
  }

  function codeSection(code) {
    const node = nodes?.get?.(code.key);
    const isCode = code.path.at(-1) === "process";
    const language = languageOf(code.after || code.before, isCode ? node?.data?.language || "javascript" : "");
    const fault = isCode ? (approval.codeErrors ?? []).find((one) => [code.key, `type/${code.key}`].includes(one.key)) : undefined;
    const rows = wholeRows(code);
    const count = (kind) => rows.filter((row) => row.kind === kind).length;
    const view = { ...code, fault, words: { before: linesOfWords(code.before, language), after: linesOfWords(code.after, language) }, lines: { before: code.before.split("\n"), after: code.after.split("\n") } };
    return h("section.code-part", { "aria-label": t("diff.label", { added: count("added"), removed: count("removed") }) },
      h("header.code-head", h("strong", visible(code.name)), h("span.note", fieldName(t, code.path)), h("span.diff-count.is-added", `+${count("added")}`), h("span.diff-count.is-removed", `−${count("removed")}`), checkOf(fault, isCode && CHECKED.has(language))),
      h("table.code-table", { class: `is-${layout}` }, foldsOf(pairsOf(rows), ([one, other]) => one === other).flatMap((part) => partOf(view, part))));
  }

  function checkOf(fault, isChecked) {
    if (fault) return h("span.warn-text", `⚠ ${t("code.broken", { line: fault.line })}`);
    return isChecked && isOpen(approval) ? h("span.ok-text", `✓ ${t("code.sound")}`) : "";
  }

  // Unchanged lines that are folded come with a button in their place.
  function partOf(view, { items, isFolded }) {
    const lines = h("tbody", { hidden: isFolded }, isFolded ? "" : linesOf(view, items));
    if (!isFolded) return [lines];
    const unfold = () => {
      replace(lines, linesOf(view, items));
      lines.hidden = false;
      fold.remove();
      body.focus({ preventScroll: true });
    };
    const fold = h("tbody", h("tr.code-fold", h("td", { colspan: "6" }, h("button.link-button", { type: "button", onclick: unfold }, t("code.unchanged", { n: items.length })))));
    return [fold, lines];
  }

  // In one column all that goes stands before what comes in its place.
  function linesOf(view, pairs) {
    if (layout === "two") return pairs.map((pair) => h("tr", ...["before", "after"].flatMap((side, i) => sideOf(view, pair[i], side, partsOf(view, pair)))));
    const rows = [];
    const coming = [];
    for (const pair of pairs) {
      const [one, other] = pair;
      const parts = partsOf(view, pair);
      if (one === other) {
        rows.push(...coming.splice(0), h("tr", number(one.before), number(one.after), ...lineOf(view, one, "after", null)));
        continue;
      }
      if (one) rows.push(h("tr", number(one.before), number(null), ...lineOf(view, one, "before", parts)));
      if (other) coming.push(h("tr", number(null), number(other.after), ...lineOf(view, other, "after", parts)));
    }
    return [...rows, ...coming];
  }

  function partsOf({ lines }, [one, other]) {
    return one && other && one !== other ? differenceOf(lines.before[one.before - 1], lines.after[other.after - 1]) : null;
  }

  function number(line) {
    return h("td.diff-no", { "aria-hidden": "true" }, line === null ? "" : String(line));
  }

  function sideOf(view, row, side, parts) {
    return row ? [number(row[side]), ...lineOf(view, row, side, parts)] : [number(null), h("td.diff-sign"), h("td.code-none")];
  }

  function lineOf({ words, fault }, row, side, parts) {
    const shown = words[side][row[side] - 1] ?? [];
    const isBroken = fault && side === "after" && fault.line === row.after;
    const line = parts ? marked(shown, parts.from, side === "before" ? parts.toBefore : parts.toAfter) : shown.map(wordOf);
    const said = row.kind === "same" ? "" : h("span.sr-only", `${t(`diff.${row.kind}`)} `);
    return [h("td.diff-sign", { class: `diff-${row.kind}`, "aria-hidden": "true" }, SIGNS[row.kind]), h("td.code-line", { class: isBroken ? `diff-${row.kind} is-broken` : `diff-${row.kind}` }, said, line)];
  }
}

function wordOf({ kind, text }) {
  return kind ? h("span", { class: `word-${kind}` }, visible(text)) : visible(text);
}

// The elements of a line, with what differs in a mark.
function marked(words, from, to) {
  const parts = [[], [], []]; // before it, in it, after it
  let at = 0;
  for (const { kind, text } of words) {
    const cuts = [0, from - at, to - at, text.length].map((cut) => Math.max(0, Math.min(cut, text.length)));
    for (const [i, part] of parts.entries()) if (cuts[i] < cuts[i + 1]) part.push(wordOf({ kind, text: text.slice(cuts[i], cuts[i + 1]) }));
    at += text.length;
  }
  const [before, differing, after] = parts;
  return [...before, differing.length ? h("mark", differing) : "", ...after];
}
