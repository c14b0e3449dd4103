// Prints the page's first questions of graphs: a file of [{graph, nodes, edges, types}] in, JSON lists out.

import { readFileSync } from "node:fs";

import { firstQuestions } from "../../server/web/js/chat/welcome.js";

const texts = JSON.parse(process.env.TEXTS);
const t = (key, facts = {}) => texts[key].replace(/\{(\w+)\}/g, (_, name) => facts[name]);
const asked = JSON.parse(readFileSync(process.env.GRAPHS, "utf8")).map(({ graph, nodes, edges, types }) => {
  const byKey = (items, key) => new Map(items.map((item) => [item[key], item]));
  const state = { graph, nodes: byKey(nodes, "_key"), edges: byKey(edges, "_key"), nodeTypes: byKey(types, "type"), me: { role: "editor" } };
  return firstQuestions({ t, store: { get: () => state } });
});
console.log(JSON.stringify(asked));
