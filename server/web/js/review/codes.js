// The code of a proposal, before and after, as rows of the whole text. Pure.

import { parseDiff } from "../diff.js";

const FOLDED = 40; // unchanged lines in a row from which on they are folded
const AROUND = 6; // of them stay on each side

// Returns `[{key, name, path, before, after, diff}]`: each code or text of several lines that a preview changes or adds.
export function codesOf({ nodesChanged = [], nodesAdded = [], typesChanged = [], typesAdded = [] }, nameOf = (node) => node._key) {
  const changed = [...nodesChanged, ...typesChanged].flatMap(({ key, name, fields }) =>
    fields.filter((field) => field.diff).map(({ path, before, after, diff }) => ({ key, name, path, before: before ?? "", after: after ?? "", diff })));
  const added = [...nodesAdded.map((node) => [node, node.process]), ...typesAdded.map((type) => [type, type.node?.process ?? type.process])]
    .filter(([, code]) => typeof code === "string" && code)
    .map(([one, code]) => ({ key: one._key, name: nameOf(one), path: ["process"], before: "", after: code, diff: null }));
  return [...changed, ...added];
}

// Returns the rows of the whole text: `{kind: "same"|"added"|"removed", before, after}`, with numbers of lines or null.
export function wholeRows({ before, after, diff }) {
  const count = (text) => (text ? text.split("\n").length : 0);
  const rows = [];
  const here = { before: 1, after: 1 };
  const same = () => rows.push({ kind: "same", before: here.before++, after: here.after++ });
  const changes = diff === null ? [] : parseDiff(diff).filter((row) => row.kind === "added" || row.kind === "removed");
  for (const { kind, ...at } of changes) {
    const side = kind === "added" ? "after" : "before";
    while (here[side] < at[side]) same();
    rows.push({ kind, before: null, after: null, [side]: here[side]++ });
  }
  while (here.before <= count(before)) same();
  while (here.after <= count(after)) rows.push({ kind: "added", before: null, after: here.after++ });
  return rows;
}

// Returns rows side by side, `[removed or same, added or same]`; one of them may be null.
export function pairsOf(rows) {
  const pairs = [];
  for (let i = 0; i < rows.length; ) {
    if (rows[i].kind === "same") {
      pairs.push([rows[i], rows[i]]);
      i += 1;
      continue;
    }
    let end = i;
    while (end < rows.length && rows[end].kind !== "same") end += 1;
    const run = rows.slice(i, end);
    const [gone, come] = ["removed", "added"].map((kind) => run.filter((row) => row.kind === kind));
    for (let at = 0; at < Math.max(gone.length, come.length); at += 1) pairs.push([gone[at] ?? null, come[at] ?? null]);
    i = end;
  }
  return pairs;
}

// Returns what differs between two lines: `{from, toBefore, toAfter}`, or null where hardly anything is the same.
export function differenceOf(before, after) {
  const most = Math.min(before.length, after.length);
  let from = 0;
  while (from < most && before[from] === after[from]) from += 1;
  let end = 0;
  while (end < most - from && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return from + end > most / 4 ? { from, toBefore: before.length - end, toAfter: after.length - end } : null;
}

// Returns parts of a list, `{items, isFolded}`: long stretches in which `isSame` holds are folded but for their ends.
export function foldsOf(items, isSame) {
  const parts = [{ items: [], isFolded: false }];
  for (let i = 0; i < items.length; ) {
    let end = i;
    while (end < items.length && isSame(items[end])) end += 1;
    if (end - i >= FOLDED) {
      const [first, last] = [i === 0 ? i : i + AROUND, end === items.length ? end : end - AROUND];
      parts.at(-1).items.push(...items.slice(i, first));
      parts.push({ items: items.slice(first, last), isFolded: true }, { items: items.slice(last, end), isFolded: false });
    } else parts.at(-1).items.push(...items.slice(i, Math.max(end, i + 1)));
    i = Math.max(end, i + 1);
  }
  return parts.filter((part) => part.items.length);
}

// The number of the first line, from 0, in which two texts differ.
export function firstDifference(before, after) {
  const [old, lines] = [before, after].map((text) => text.split("\n"));
  const found = lines.findIndex((line, i) => line !== old[i]);
  return found < 0 ? 0 : found;
}
