// The first page: the graphs of this person, to open, import and export.

import { createParts, h, replace } from "../dom.js";
import { showNotice } from "../dialogs.js";
import { icon } from "../icons.js";
import { ago } from "../names.js";

const SEARCHABLE = 5;

export function createHome(element, app) {
  const { store, t, graphs, live } = app;
  const title = h("h1");
  const intro = h("p.muted");
  const field = h("input", { type: "search", oninput: cards });
  const search = h("label.search", icon("search"), field);
  const tools = h("div.home-tools");
  const list = h("div.graph-list");
  const home = h("div.home", h("div.home-head", h("div", title, intro), tools), list);
  const drawTools = createParts(tools);
  const drawCards = createParts(list);

  function draw() {
    const { graphs: found, graphsError, graphError, me } = store.get();
    const failed = graphsError ?? (me ? null : graphError);
    if (failed) return showNotice(element, { name: "error", title: t("graphs.failed"), text: failed.message, actions: [h("button", { type: "button", onclick: () => location.reload() }, t("app.retry"))] });
    if (!found) return showNotice(element, { busy: true, text: t("graphs.loading") });
    if (!found.length) return showNotice(element, { name: "graph", title: t("graphs.empty"), text: t("graphs.empty_hint"), actions: [importButton(true), agentsButton()] });
    if (element.firstChild !== home) replace(element, home);
    title.textContent = t("graphs.title");
    intro.textContent = t("graphs.intro");
    field.placeholder = t("graphs.search");
    field.setAttribute("aria-label", field.placeholder);
    search.hidden = found.length <= SEARCHABLE;
    drawTools([{ key: "search", facts: [], make: () => search }, { key: "agents", facts: [store.get().lang], make: agentsButton }, { key: "import", facts: [store.get().lang], make: () => importButton(false) }]);
    return cards();
  }

  // Agents may answer about no graph: the panels are shown beside the graphs too.
  function agentsButton() {
    return h("button", { type: "button", onclick: () => {
      document.body.dataset.aside = "";
      store.set({ panel: "agents" });
    } }, icon("agents"), t("panel.agents"));
  }

  function importButton(isFirst) {
    return h("button", { type: "button", class: isFirst ? "primary" : undefined, onclick: graphs.pick }, icon("upload"), t("graphs.import"));
  }

  function cards() {
    const { graphs: found, me, lang } = store.get();
    const text = field.value.trim().toLowerCase();
    const matching = found.filter((graph) => `${graph.name} ${graph.description ?? ""} ${graph.graphKey}`.toLowerCase().includes(text));
    const showsWorkspace = (me?.workspaces.length ?? 1) > 1;
    const rows = matching.map((graph) => ({ key: graph.graphKey, facts: [JSON.stringify(graph), showsWorkspace, lang], make: () => card(graph, showsWorkspace) }));
    drawCards(rows.length ? rows : [{ key: "", facts: [text, lang], make: () => h("p.muted", t("graphs.none_found", { text: field.value })) }]);
  }

  // When a graph was changed and made, as far as that is known.
  function times({ createdTime, lastUpdatedTime }) {
    const { lang } = store.get();
    const of = (key, at) => h("time", { datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString(lang) }, t(key, { when: ago(at, lang, t) }));
    const isChanged = lastUpdatedTime && lastUpdatedTime !== createdTime;
    return [isChanged ? of("graphs.changed", lastUpdatedTime) : null, createdTime ? of("graphs.created", createdTime) : null];
  }

  function card(graph, showsWorkspace) {
    const sheets = Object.keys(graph.sheets ?? {}).length;
    return h("article.graph-card", { dataset: { graph: graph.graphKey } },
      h("button.graph-open", { type: "button", onclick: () => live.open(graph.graphKey, null) },
        h("span.graph-icon", { "aria-hidden": "true" }, icon("graph")),
        h("span.graph-text", h("span.graph-name", graph.name), graph.description ? h("span.graph-description", graph.description) : null,
          h("span.graph-facts",
            h("span", t("graphs.nodes", { n: graph.nodes })), h("span", t("graphs.edges", { n: graph.edges })),
            sheets > 1 ? h("span", t("graphs.sheets", { n: sheets })) : null,
            showsWorkspace ? h("span", graph.workspace) : null,
            ...times(graph),
            graph.embedding ? h("span", t("graphs.embedding", { n: graph.embedding })) : null))),
      h("button.icon-button", { type: "button", title: t("graphs.export"), "aria-label": `${t("graphs.export")}: ${graph.name}`, onclick: () => graphs.exportGraph(graph) }, icon("download")));
  }

  return { draw };
}
