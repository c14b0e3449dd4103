// Names by which n8n's code and expressions mean nodes: unique in a workflow, and followed when one gets another. Pure.

import { labelOf } from "../names.js";

// $node["Name"], $('Name'), $items("Name")
const REFERENCE = /(\$(?:node\s*\[|items\s*\(|\()\s*)(["'`])(.*?)\2/g;

// Returns the nodes under names that no node of `here` has; what they say of one another follows.
export function uniqueNames(nodes, here, types) {
  const taken = new Set([...here].map((node) => labelOf(node, types)));
  const renamed = new Map();
  const names = nodes.map((node) => {
    const before = labelOf(node, types);
    const stem = before.replace(/\d+$/, "");
    let name = before;
    for (let i = 1; taken.has(name); i += 1) name = `${stem}${i}`;
    taken.add(name);
    if (name !== before) renamed.set(before, name);
    return name;
  });
  return nodes.map((node, i) => {
    const changed = renamed.size ? followed(node, renamed) : node;
    const isNamed = changed.data !== null && typeof changed.data === "object" && !Array.isArray(changed.data);
    return names[i] === labelOf(node, types) ? changed : { ...changed, data: { ...(isNamed ? changed.data : {}), name: names[i] } };
  });
}

function followed({ data, process, ...node }, renamed) {
  const inText = (text) => text.replace(REFERENCE, (all, begin, quote, name) => (renamed.has(name) ? `${begin}${quote}${renamed.get(name)}${quote}` : all));
  const inValue = (value) => {
    if (typeof value === "string") return inText(value);
    if (Array.isArray(value)) return value.map(inValue);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inValue(one)]));
  };
  return { ...node, ...(data === undefined ? {} : { data: inValue(data) }), ...(typeof process === "string" ? { process: inText(process) } : {}) };
}
