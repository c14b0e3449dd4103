// Open proposals in groups that are looked at and decided together. Pure.

import { labelOf } from "../names.js";

export const GROUPINGS = ["answer", "automation", "asker", "program", "graph", "node"];

// The key of an approval's group, and what it is called: `[key, name]`.
const KEYS = {
  answer: (one) => [`${one.threadId} ${one.turn}`, ""],
  automation: (one) => [one.automationId ?? "", ""],
  asker: (one) => [one.asker, one.asker],
  program: (one) => [one.program ?? "", one.program ?? ""],
  graph: (one) => [one.graphKey, one.graphKey],
  node: (one) => firstNode(one.preview),
};

function firstNode({ nodesAdded = [], nodesRemoved = [], nodesChanged = [], nodesMoved = [], edgesAdded = [], edgesRemoved = [] }) {
  const change = [...nodesChanged, ...nodesMoved][0];
  if (change) return [change.key, change.name];
  const node = [...nodesAdded, ...nodesRemoved][0];
  return node ? [node._key, labelOf(node)] : [[...edgesAdded, ...edgesRemoved][0]?.source ?? "", ""];
}

// Returns `[{key, name, approvals}]` in the order of the oldest of each; the oldest first in each, too.
export function groupsOf(approvals, by) {
  const groups = new Map();
  for (const one of approvals.toSorted((a, b) => a.created - b.created)) {
    const [key, name] = KEYS[by](one);
    if (!groups.has(key)) groups.set(key, { key, name, approvals: [] });
    groups.get(key).approvals.push(one);
  }
  return [...groups.values()];
}

// What all of them change in one graph, as one preview for the canvas.
export function together(approvals, graphKey) {
  const preview = {};
  for (const one of approvals.filter((each) => each.graphKey === graphKey)) {
    for (const [kind, items] of Object.entries(one.preview)) preview[kind] = [...(preview[kind] ?? []), ...items];
  }
  return preview;
}
