// The tree of an answer: one row a step, its time as a bar on one axis, operated by the arrow keys.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { besideOf, titleOf, tookText } from "./words.js";

const OPEN_LEVELS = 2; // levels whose steps are open at first
const MIN_WIDTH = 0.6; // of a bar, in per cent

// Returns `element`, `draw(roots)`, `focus()`. A root: {id, title, beside, ms, steps}; `steps` null: not read yet.
// `onOpen(root)` is called when one without steps is opened, `onShow(root, step)` when a row is chosen.
export function createTree(app, { label, onOpen, onShow }) {
  const open = new Map(); // by id, what a person or the first drawing decided
  let roots = [];
  let rows = [];
  let chosen = null;
  const element = h("div.trace-tree", { role: "tree", "aria-label": label, onkeydown: pressed, onclick: clicked });
  return { element, draw, focus: () => rowOf(chosen)?.focus({ preventScroll: true }), choose };

  function draw(next) {
    roots = next;
    rows = roots.flatMap((root, i) => [rowFacts(root, root, null, 1, i, roots.length), ...(isOpen(root, 1) ? below(root, root.steps ?? [], root.id, 2) : [])]);
    if (!rows.some(({ one }) => one.id === chosen)) chosen = rows[0]?.one.id ?? null;
    const hadFocus = element.contains(document.activeElement);
    replace(element, rows.map(rowElement));
    if (hadFocus) rowOf(chosen)?.focus({ preventScroll: true });
  }

  function rowFacts(root, one, parent, level, i, size) {
    return { root, one, parent, level, i, size };
  }

  function below(root, steps, parent, level) {
    return steps.flatMap((one, i) => [rowFacts(root, one, parent, level, i, steps.length), ...(isOpen(one, level) ? below(root, one.children, one.id, level + 1) : [])]);
  }

  function childrenOf(one) {
    return one.steps ?? one.children ?? [];
  }

  function mayOpen(one) {
    return one.steps === null || childrenOf(one).length > 0;
  }

  // Proposals are always seen; what a search found in detail is not.
  function isOpen(one, level) {
    if (open.has(one.id)) return open.get(one.id);
    if (level === 1) return one.isOpen;
    return one.kind !== "search" && (level <= OPEN_LEVELS || one.kind === "searches" || childrenOf(one).some(({ kind }) => kind === "proposal"));
  }

  function rowElement({ root, one, level, i, size }) {
    const isRoot = level === 1;
    const opened = mayOpen(one) ? isOpen(one, level) : undefined;
    const title = isRoot ? one.title : titleOf(app, one);
    const beside = isRoot ? one.beside : besideOf(app, one);
    const isOwn = one.ms !== null && one.ms !== undefined;
    return h("div.trace-row", {
      role: "treeitem", tabindex: one.id === chosen ? "0" : "-1", class: [isRoot ? "is-root" : `is-${one.kind}`, one.isFailed ? "is-failed" : ""].join(" "),
      "aria-level": level, "aria-posinset": i + 1, "aria-setsize": size, "aria-selected": String(one.id === chosen), "aria-expanded": opened === undefined ? undefined : String(opened),
      dataset: { id: one.id }, style: { "--level": level - 1 },
    },
      h("span.trace-mark", { "aria-hidden": "true" }, opened === undefined ? "" : icon("chevron")),
      h("span.trace-words", h("strong", title), beside ? " " : "", beside ? h("span.trace-beside", beside) : ""),
      h("span.trace-ms", isOwn ? tookText(app, one.ms) : ""),
      h("span.trace-axis", { "aria-hidden": "true" }, root.ms && !isRoot ? bar(root, one, isOwn) : ""));
  }

  function bar(root, { at, ms }, isOwn) {
    const share = (value) => Math.min(100, (100 * value) / root.ms);
    const left = Math.min(100 - MIN_WIDTH, share(at));
    const width = isOwn ? Math.max(MIN_WIDTH, Math.min(100 - left, share(ms))) : 0;
    return isOwn ? h("span.trace-bar", { style: { left: `${left}%`, width: `${width}%` } }) : h("span.trace-point", { style: { left: `${left}%` } });
  }

  function rowOf(id) {
    return [...element.children].find((row) => row.dataset.id === id);
  }

  function choose(id) {
    const row = rows.find(({ one }) => one.id === id);
    if (!row) return;
    for (const shown of element.children) {
      const isChosen = shown.dataset.id === id;
      shown.tabIndex = isChosen ? 0 : -1;
      shown.setAttribute("aria-selected", String(isChosen));
    }
    chosen = id;
    onShow(row.root, row.level === 1 ? null : row.one);
  }

  function go(id) {
    choose(id);
    rowOf(id)?.focus();
  }

  function toggle({ one, level }, wanted = !isOpen(one, level)) {
    if (!mayOpen(one) || wanted === isOpen(one, level)) return;
    open.set(one.id, wanted);
    draw(roots);
    if (wanted && one.steps === null) onOpen(one);
  }

  function clicked(event) {
    const id = event.target.closest?.(".trace-row")?.dataset.id;
    const row = rows.find(({ one }) => one.id === id);
    if (!row) return;
    const isAgain = id === chosen || event.target.closest(".trace-mark");
    go(id);
    if (isAgain) toggle(row);
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = rows.findIndex(({ one }) => one.id === chosen);
    const row = rows[place];
    if (!row || !keyed(event.key, row, place)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The keys of a tree, as the ARIA practices name them. Returns whether the key is one of them.
  function keyed(key, row, place) {
    const to = (i) => (rows[i] ? go(rows[i].one.id) : undefined, true);
    const isOpened = mayOpen(row.one) && isOpen(row.one, row.level);
    switch (key) {
      case "ArrowDown":
        return to(place + 1);
      case "ArrowUp":
        return to(place - 1);
      case "Home":
        return to(0);
      case "End":
        return to(rows.length - 1);
      case "ArrowRight":
        return isOpened ? (rows[place + 1]?.level > row.level ? to(place + 1) : true) : (toggle(row, true), true);
      case "ArrowLeft":
        return isOpened ? (toggle(row, false), true) : to(rows.findIndex(({ one }) => one.id === row.parent));
      case "Enter":
      case " ":
        return toggle(row), true;
      case "*":
        rows.filter((one) => one.parent === row.parent).forEach((one) => toggle(one, true));
        return true;
      default:
        return false;
    }
  }
}
