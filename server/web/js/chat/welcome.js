// What an empty conversation shows: who answers, and first questions about this very graph.

import { shapeOf } from "../canvas/model.js";
import { h } from "../dom.js";
import { labelOf } from "../names.js";
import { mayEdit } from "../roles.js";

const MAX_NAME = 60;

// Returns the welcome of a graph, or of the agent that was chosen; `onAsk(text)` is called with the question that was chosen.
export function createWelcome(app, onAsk, agent) {
  const { t } = app;
  if (agent) return h("div.welcome", h("p.welcome-title", agent.name), h("p.note", agent.opening ?? t("agents.welcome")));
  const { graph, graphKey, graphState, me } = app.store.get();
  if (!graphKey) return h("div.welcome", h("p.welcome-title", t("chat.no_graph")), h("p.note", t("chat.no_graph_hint")));
  const questions = (graphState === "ready" ? firstQuestions(app) : []).map((text) => h("li", h("button.suggestion", { type: "button", onclick: () => onAsk(text) }, text)));
  return h("div.welcome",
    h("p.welcome-title", t("chat.welcome", { name: graph?.name ?? graphKey })),
    h("p.note", t(mayEdit(me) ? "chat.welcome_hint" : "chat.welcome_viewer")),
    questions.length ? h("ul.suggestions", { "aria-label": t("chat.suggestions") }, ...questions) : "");
}

// Questions that each have an answer: about the whole graph, its best connected node, and one for errors.
// Notes are no steps of it, and a name that several nodes have would only be asked back for.
export function firstQuestions(app) {
  const { t } = app;
  const { nodes, edges, nodeTypes, graph, me } = app.store.get();
  const all = [...(nodes?.values?.() ?? [])];
  if (!all.length) return graph ? [t("ask.empty")] : [];
  const degree = new Map();
  for (const edge of edges?.values?.() ?? []) {
    for (const key of [edge.source, edge.target]) degree.set(key, (degree.get(key) ?? 0) + 1);
  }
  const name = (node) => labelOf(node, nodeTypes);
  const times = new Map();
  for (const node of all) times.set(name(node).toLowerCase(), (times.get(name(node).toLowerCase()) ?? 0) + 1);
  const isClear = (node) => name(node).length <= MAX_NAME && times.get(name(node).toLowerCase()) === 1;
  const ranked = all.filter((node) => !["note", "group"].includes(shapeOf(node, nodeTypes)) && isClear(node))
    .toSorted((one, other) => (degree.get(other._key) ?? 0) - (degree.get(one._key) ?? 0));
  const questions = [t("ask.graph")];
  if (!ranked.length) return questions;
  questions.push(t("ask.node", { name: name(ranked[0]) }));
  const last = ranked.find((node) => node !== ranked[0] && /error|erreur|fail|alert/i.test(`${node._key} ${node.type} ${name(node)}`)) ?? ranked.at(-1);
  if (last !== ranked[0]) questions.push(t("ask.before", { name: name(last) }));
  if (mayEdit(me)) questions.push(t("ask.change", { name: name(last) }));
  return questions;
}
