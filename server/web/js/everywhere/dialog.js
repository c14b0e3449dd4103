// All graphs at once: a search, an answer, and who refers to a value; from the first page and the inspector.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { createMarkdown } from "../markdown.js";
import { mayEdit } from "../roles.js";
import { createCodemod } from "./codemod.js";

const MOST_LISTED = 200;

// Opens the dialog; with `query` it searches at once, with `node` it lists what that node refers to.
export function openEverywhere(app, { query = "", node = null } = {}) {
  const { api, store, t, live, canvas, openDialog } = app;
  const field = h("input", { type: "search", value: query, maxlength: 1000, required: true, autocomplete: "off", "aria-label": t("everywhere.field"), placeholder: t("everywhere.field") });
  const found = h("div.everywhere-found", { "aria-live": "polite" });
  const form = h("form.everywhere-form", { onsubmit: (event) => (event.preventDefault(), search()) }, field,
    h("button.primary", { type: "submit" }, icon("search"), t("everywhere.search")),
    h("button", { type: "button", onclick: ask }, icon("chat"), t("everywhere.ask")));
  const dialog = openDialog({ title: t(node ? "everywhere.depends" : "everywhere.title"), content: [form, found], wide: true });
  let asked = 0; // the latest of several requests is shown

  async function show(work) {
    const number = (asked += 1);
    replace(found, h("p.muted", t("everywhere.searching")));
    let parts;
    try {
      parts = await work();
    } catch (error) {
      parts = [h("p.error", error.message)];
    }
    if (number === asked) replace(found, parts);
  }

  function search(value = field.value) {
    const wanted = value.trim();
    field.value = wanted;
    if (!wanted) return field.focus();
    return show(async () => {
      const uses = wanted.length > 500 ? { uses: [] } : await api.get("/api/uses", { value: wanted });
      const { graphs } = await api.get("/api/search", { q: wanted });
      if (!uses.uses.length && !graphs.length) return [h("p.muted", t("everywhere.nothing", { value: wanted }))];
      return [...usedBy(wanted, uses), ...fitting(graphs)];
    });
  }

  function ask() {
    const message = field.value.trim();
    if (!message) return field.focus();
    return show(async () => {
      const answer = await api.post("/api/ai/chat", { graphKey: "", message, contextType: "home" });
      const said = h("div.markdown");
      createMarkdown(said, { link: (kind, body) => (kind === "graph" ? opener(body, null, body) : h("code", body)) }).update(answer.message);
      return [said];
    });
  }

  function opener(graph, key, name) {
    return h("button.link", { type: "button", onclick: async () => {
      dialog.close();
      await live.open(graph, null);
      if (key) canvas.zoomTo(key);
    } }, name);
  }

  function usedBy(value, { uses, more }) {
    if (!uses.length) return [];
    const graphs = new Set(uses.map((use) => use.graph)).size;
    return [
      h("h3", t("everywhere.used", { n: uses.length }), ", ", t("everywhere.in_graphs", { n: graphs }), more ? " …" : null),
      h("ul.everywhere-list", uses.slice(0, MOST_LISTED).map((use) => h("li",
        opener(use.graph, use.key, use.name), h("span.muted", use.graphName), h("span.tag", t(`everywhere.kind_${use.kind}`)), h("code", use.field)))),
      mayEdit(store.get().me) ? createCodemod(app, { value, kind: sameKind(uses) }) : null,
    ];
  }

  function fitting(graphs) {
    if (!graphs.length) return [];
    return [h("h3", t("everywhere.fits")), h("ul.everywhere-list", graphs.map((graph) => h("li",
      opener(graph.key, null, graph.name), h("ul", graph.hits.map((hit) => h("li", opener(graph.key, hit.key, hit.name), h("span.muted", hit.type)))))))];
  }

  function values() {
    return show(async () => {
      const { values: of } = await api.get(`/api/graphs/${encodeURIComponent(node.graph)}/nodes/${encodeURIComponent(node.key)}/uses`);
      if (!of.length) return [h("p.muted", t("everywhere.refers_to_nothing"))];
      return [h("p", t("everywhere.refers_to")), h("ul.everywhere-list", of.map(({ value, kind, others }) => h("li",
        h("button.link", { type: "button", onclick: () => search(value) }, value), h("span.tag", t(`everywhere.kind_${kind}`)), h("span.muted", t("everywhere.others", { n: others })))))];
    });
  }

  if (node) values();
  else if (query) search();
  field.focus();
}

function sameKind(uses) {
  const kinds = new Set(uses.map((use) => use.kind));
  return kinds.size === 1 ? [...kinds][0] : null;
}
