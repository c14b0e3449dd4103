// The first page: the graphs of this person, to open, import and export.

import { h, replace } from "../dom.js";
import { showNotice } from "../dialogs.js";
import { icon } from "../icons.js";
import { ago } from "../times.js";

const SEARCHABLE = 5;

export function createHome(element, app) {
  const { store, t, graphs, live } = app;
  let wanted = "";

  function draw() {
    const { graphs: found, graphsError, graphError, me } = store.get();
    const failed = graphsError ?? (me ? null : graphError);
    if (failed) return showNotice(element, { name: "error", title: t("graphs.failed"), text: failed.message, actions: [h("button", { type: "button", onclick: () => location.reload() }, t("app.retry"))] });
    if (!found) return showNotice(element, { busy: true, text: t("graphs.loading") });
    if (!found.length) return showNotice(element, { name: "graph", title: t("graphs.empty"), text: t("graphs.empty_hint"), actions: [importButton(true)] });
    const list = h("div.graph-list");
    replace(element, h("div.home",
      h("div.home-head", h("div", h("h1", t("graphs.title")), h("p.muted", t("graphs.intro"))),
        h("div.home-tools", found.length > SEARCHABLE ? search(list) : null, importButton(false))), list));
    return cards(list);
  }

  function importButton(isFirst) {
    return h("button", { type: "button", class: isFirst ? "primary" : undefined, onclick: graphs.pick }, icon("upload"), t("graphs.import"));
  }

  function search(list) {
    return h("label.search", icon("search"), h("input", {
      type: "search", value: wanted, placeholder: t("graphs.search"), "aria-label": t("graphs.search"),
      oninput: (event) => ((wanted = event.target.value), cards(list)),
    }));
  }

  function cards(list) {
    const { graphs: found, me } = store.get();
    const text = wanted.trim().toLowerCase();
    const matching = found.filter((graph) => `${graph.name} ${graph.description ?? ""} ${graph.graphKey}`.toLowerCase().includes(text));
    replace(list, matching.map((graph) => card(graph, (me?.workspaces.length ?? 1) > 1)));
    if (!matching.length) list.append(h("p.muted", t("graphs.none_found", { text: wanted })));
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
            graph.lastUpdatedTime ? h("time", { datetime: new Date(graph.lastUpdatedTime).toISOString() }, ago(graph.lastUpdatedTime, store.get().lang, t)) : null))),
      h("button.icon-button", { type: "button", title: t("graphs.export"), "aria-label": `${t("graphs.export")}: ${graph.name}`, onclick: () => graphs.exportGraph(graph) }, icon("download")));
  }

  return { draw };
}
