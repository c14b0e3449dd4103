// Ctrl K: one field for everything. Actions and the open graph's nodes at once, the rest as the service answers.

import { ApiError } from "../api.js";
import { openPicker } from "../canvas/picker.js";
import { mayEdit } from "../roles.js";
import { labelOf } from "../names.js";
import { panelsFor } from "../panels.js";
import { readApproval } from "../review/book.js";

const WAIT_MS = 150; // between the last key and the question
const LOCAL = 6; // nodes of the open graph that are shown before the service answers
const ICONS = { graph: "graph", node: "Box", thread: "threads", proposal: "review", action: "chevron" };

// Opens the search; what is chosen is shown.
export function openFind(app) {
  const { t, store } = app;
  if (document.querySelector("dialog[open]")) return;
  let answered = { text: "", hits: [] };
  let timer = 0;
  const dialog = openPicker(app, { title: t("find_all.title"), hint: t("find_all.hint"), find });

  function find(text) {
    const wanted = text.trim();
    clearTimeout(timer);
    if (wanted && answered.text !== wanted) timer = setTimeout(() => ask(wanted), WAIT_MS);
    const hits = [...actions(), ...(wanted ? nodes() : [])].filter((hit) => holds(hit.label, wanted)).slice(0, wanted ? LOCAL : 12);
    const known = new Set(hits.map(keyOf));
    const more = answered.text === wanted ? answered.hits.filter((hit) => !known.has(keyOf(hit))) : [];
    return { rows: [...hits, ...more].map(row), note: wanted && answered.text === wanted ? t("find_all.found", { n: hits.length + more.length }) : "" };
  }

  async function ask(text) {
    try {
      answered = { text, hits: (await app.api.get("/api/find", { q: text.slice(0, 200) })).hits };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      answered = { text, hits: [] };
      app.toast("error", error.message);
    }
    dialog.element.querySelector("input")?.dispatchEvent(new Event("input"));
  }

  function nodes() {
    const { nodes, nodeTypes, graphKey, graph } = store.get();
    return [...nodes.values()].map((node) => ({ kind: "node", key: node._key, graph: graphKey, label: labelOf(node, nodeTypes), detail: graph?.name ?? "" }));
  }

  function actions() {
    const { me, graphKey } = store.get();
    const action = (label, run) => ({ kind: "action", key: label, label, run });
    return [
      ...panelsFor(me).map((panel) => action(t(`panel.${panel}`), () => store.set({ panel }))),
      action(t("graphs.title"), () => app.live.close()),
      ...(graphKey ? [action(t("chat.new"), () => (store.set({ panel: "chat" }), app.chat?.startNew()))] : []),
      ...(mayEdit(me) ? [action(t("graphs.import"), () => app.graphs.pick())] : []),
    ];
  }

  function row(hit) {
    return { look: { icon: ICONS[hit.kind], hue: 215 }, name: hit.label || t("threads.untitled"), about: [t(`find_all.${hit.kind}`), hit.detail].filter(Boolean).join(" · "), choose: () => show(app, hit) };
  }
}

const keyOf = ({ kind, graph, key }) => `${kind} ${graph} ${key}`;

const holds = (text, wanted) => wanted.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));

// Leads to what was found, in its graph.
async function show(app, { kind, key, graph, run }) {
  if (kind === "action") return run();
  const wanted = kind === "graph" ? key : graph;
  if (wanted && wanted !== app.store.get().graphKey) await app.live.open(wanted);
  if (kind === "node") app.canvas.zoomTo(key);
  if (kind === "thread") app.store.set({ panel: "chat", threadId: key });
  if (kind === "proposal") {
    await readApproval(app, key).catch((error) => app.toast("error", error.message));
    app.store.set({ panel: "review", reviewShown: key });
  }
}
