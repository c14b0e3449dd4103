// What an empty conversation shows: who answers, what the graph does, and first questions about this very graph.

import { h, replace } from "../dom.js";
import { mayEdit } from "../roles.js";

const known = new Map(); // by graph, revision and language: what the server suggested

// Returns the welcome of a graph, or of the agent that was chosen; `onAsk(text)` is called with the question that was chosen.
export function createWelcome(app, onAsk, agent) {
  const { t } = app;
  if (agent) return h("div.welcome", h("p.welcome-title", agent.name), h("p.note", agent.opening ?? t("agents.welcome")));
  const { graph, graphKey, me } = app.store.get();
  if (!graphKey) return h("div.welcome", h("p.welcome-title", t("chat.no_graph")), h("p.note", t("chat.no_graph_hint")));
  const about = h("div.welcome-about", { "aria-live": "polite" });
  suggested(app).then((made) => made && replace(about,
    h("p.welcome-summary", made.summary),
    h("ul.suggestions", { "aria-label": t("chat.suggestions") }, made.questions.map((text) => h("li", h("button.suggestion", { type: "button", onclick: () => onAsk(text) }, text))))));
  return h("div.welcome",
    h("p.welcome-title", t("chat.welcome", { name: graph?.name ?? graphKey })),
    h("p.note", t(mayEdit(me) ? "chat.welcome_hint" : "chat.welcome_viewer")),
    about);
}

// Asks once for each revision; a failure leaves the welcome without suggestions and is tried at the next drawing.
function suggested(app) {
  const { graph, graphKey, lang } = app.store.get();
  const key = JSON.stringify([graphKey, graph?.revision, lang]);
  if (!known.has(key)) {
    known.clear();
    known.set(key, app.api.get(`/api/graphs/${encodeURIComponent(graphKey)}/suggestions`).catch(() => known.delete(key) && null));
  }
  return known.get(key);
}
