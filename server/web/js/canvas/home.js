// The first page: the graphs of this person, to open, import and export.

import { createParts, h, named, replace, svg } from "../dom.js";
import { showNotice } from "../dialogs.js";
import { icon } from "../icons.js";
import { kept } from "../kept.js";
import { ago, personName } from "../names.js";
import * as roles from "../roles.js";

const SEARCHABLE = 5; // with more, there are a search field, an order and narrower cards
const FOLDER = " / "; // a graph named "Sales / Orders" stands in the folder "Sales"
const SORTS = {
  changed: (one, other) => (other.lastUpdatedTime ?? 0) - (one.lastUpdatedTime ?? 0),
  name: (one, other) => one.name.localeCompare(other.name),
  nodes: (one, other) => other.nodes - one.nodes,
};
const PICTURE = { w: 96, h: 60, edge: 4 };

export function createHome(element, app) {
  const { store, t, graphs, live } = app;
  const title = h("h1");
  const intro = h("p.muted");
  const field = h("input", { type: "search", oninput: cards });
  const search = h("label.search", icon("search"), field);
  const tools = h("div.home-tools");
  const list = h("div.graph-list");
  const bin = h("div.deleted-graphs");
  const home = h("div.home", h("div.home-head", h("div", title, intro), tools), list, bin);
  const drawBin = createParts(bin);
  store.on("isAside", (isAside) => document.body.toggleAttribute("data-aside", isAside));
  const drawTools = createParts(tools);
  const drawCards = createParts(list);

  function draw() {
    const { graphs: found, graphsError, graphError, me } = store.get();
    const failed = graphsError ?? (me ? null : graphError);
    if (failed) return showNotice(element, { name: "error", title: t("graphs.failed"), text: failed.message, actions: [h("button", { type: "button", onclick: () => location.reload() }, t("app.retry"))] });
    if (!found) return showNotice(element, { busy: true, text: t("graphs.loading") });
    graphs.look();
    if (!found.length && !store.get().deletedGraphs?.length) return showNotice(element, { name: "graph", title: t("graphs.empty"), text: t(mayEdit() ? "graphs.empty_hint" : "graphs.empty_look"), actions: [...(mayEdit() ? [importButton(true), sampleButton(), newButton(), serversButton()] : []), agentsButton()] });
    if (element.firstChild !== home) replace(element, home);
    title.textContent = t("graphs.title");
    intro.textContent = t("graphs.intro");
    field.placeholder = t("graphs.search");
    field.setAttribute("aria-label", field.placeholder);
    const isMany = found.length > SEARCHABLE;
    search.hidden = !isMany;
    home.classList.toggle("is-many", isMany);
    drawTools([{ key: "today", facts: [store.get().lang], make: todayButton }, { key: "everywhere", facts: [store.get().lang], make: everywhereButton }, { key: "search", facts: [], make: () => search }, ...(isMany ? [{ key: "sort", facts: [store.get().lang], make: sortChooser }] : []), { key: "agents", facts: [store.get().lang], make: agentsButton }, ...(mayEdit() ? [{ key: "new", facts: [store.get().lang], make: newButton }] : []),
      ...(mayEdit() ? [{ key: "servers", facts: [store.get().lang], make: serversButton }] : []),
      { key: "import", facts: [store.get().lang], make: () => importButton(false) }]);
    deleted();
    return cards();
  }

  const mayEdit = () => roles.mayEdit(store.get().me);
  const sampleButton = () => h("button", { type: "button", onclick: graphs.openSample }, icon("graph"), t("graphs.sample"));
  const newButton = () => h("button", { type: "button", onclick: graphs.create }, icon("plus"), t("graphs.new"));

  // What can be restored.
  function deleted() {
    const { deletedGraphs: found, lang, me } = store.get();
    const when = (time) => ago(time, lang, t);
    const row = (graph) => h("li", h("span.graph-name", graph.name), h("span.muted", t("graphs.deleted_by", { when: when(graph.deletedTime), who: personName(app, graph.deletedBy), ends: when(graph.ends) })),
      mayEdit() ? h("button.link", { type: "button", "aria-label": `${t("graphs.restore")}: ${graph.name}`, onclick: () => graphs.restore(graph) }, t("graphs.restore")) : null);
    drawBin(found?.length ? [{ key: "bin", facts: [JSON.stringify(found), lang, me], make: () => h("details", h("summary", icon("trash"), t("graphs.recently_deleted", { n: found.length })), h("ul", found.map(row))) }] : []);
  }

  // Agents may answer about no graph: the panels are shown beside the graphs too.
  function agentsButton() {
    return h("button", { type: "button", onclick: () => store.set({ isAside: true, panel: "agents" }) }, icon("agents"), t("panel.agents"));
  }

  function sortChooser() {
    const select = h("select", Object.keys(SORTS).map((name) => h("option", { value: name, selected: name === sortName() }, t(`graphs.sort.${name}`))));
    select.addEventListener("change", () => {
      kept.put("graphs.sort", select.value);
      cards();
    });
    return named(t("graphs.sort"), select);
  }

  const sortName = () => (Object.hasOwn(SORTS, kept.get("graphs.sort") ?? "") ? kept.get("graphs.sort") : "changed");

  // The graphs of each folder under its name, those without one first.
  function inFolders(found) {
    const folders = new Map([["", []]]);
    for (const graph of found.toSorted(SORTS[sortName()])) {
      const at = graph.name.indexOf(FOLDER);
      const folder = at > 0 ? graph.name.slice(0, at) : "";
      folders.set(folder, [...(folders.get(folder) ?? []), graph]);
    }
    return [...folders].sort(([one], [other]) => one.localeCompare(other));
  }

  function todayButton() {
    return h("button", { type: "button", onclick: () => store.set({ isAside: true, panel: "today" }) }, icon("today"), t("panel.today"));
  }

  function everywhereButton() {
    return h("button", { type: "button", onclick: async () => (await import("../everywhere/dialog.js")).openEverywhere(app) }, icon("search"), t("everywhere.title"));
  }

  function serversButton() {
    return h("button", { type: "button", onclick: async () => (await import("../connections/list.js")).showConnections(app) }, icon("plug"), t("servers.title"));
  }

  function importButton(isFirst) {
    return h("button", { type: "button", class: isFirst ? "primary" : undefined, onclick: graphs.pick }, icon("upload"), t("graphs.import"));
  }

  function cards() {
    const { graphs: found, me, lang } = store.get();
    const text = field.value.trim().toLowerCase();
    const matching = found.filter((graph) => `${graph.name} ${graph.description ?? ""} ${graph.graphKey}`.toLowerCase().includes(text));
    const showsWorkspace = (me?.workspaces.length ?? 1) > 1;
    const cardOf = (graph) => ({ key: graph.graphKey, facts: [JSON.stringify(graph), showsWorkspace, lang, me, store.get().thumbnails?.get(graph.graphKey)], make: () => card(graph, showsWorkspace) });
    const rows = inFolders(matching).flatMap(([folder, inside]) => [...(folder ? [{ key: `folder ${folder}`, facts: [], make: () => h("h2.graph-folder", folder) }] : []), ...inside.map(cardOf)]);
    drawCards(rows.length ? rows : [{ key: "", facts: [text, lang], make: () => (field.value ? h("p.muted", t("graphs.none_found", { text: field.value })) : noGraphs()) }]);
  }

  // There is none, but some can be restored.
  const noGraphs = () => h("div.notice", h("h2", t("graphs.empty")), h("p", t(mayEdit() ? "graphs.empty_hint" : "graphs.empty_look")), mayEdit() ? sampleButton() : null);

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
        picture(store.get().thumbnails?.get(graph.graphKey)) ?? h("span.graph-icon", { "aria-hidden": "true" }, icon("graph")),
        h("span.graph-text", h("span.graph-name", graph.name), graph.description ? h("span.graph-description", graph.description) : null,
          h("span.graph-facts",
            h("span", t("graphs.nodes", { n: graph.nodes })), h("span", t("graphs.edges", { n: graph.edges })),
            sheets > 1 ? h("span", t("graphs.sheets", { n: sheets })) : null,
            graph.waiting ? h("span.badge", t("graphs.waiting", { n: graph.waiting })) : null,
            showsWorkspace ? h("span", graph.workspace) : null,
            ...times(graph),
            graph.embedding ? h("span", t("graphs.embedding", { n: graph.embedding })) : null))),
      h("button.icon-button", { type: "button", title: t("graphs.export"), "aria-label": `${t("graphs.export")}: ${graph.name}`, onclick: () => graphs.exportGraph(graph) }, icon("download")),
      mayEdit() ? h("button.icon-button", { type: "button", title: t("graphs.more", { name: graph.name }), "aria-label": t("graphs.more", { name: graph.name }), "aria-haspopup": "menu", onclick: (event) => more(event.currentTarget, graph) }, icon("more")) : null);
  }

  async function more(button, graph) {
    const { left, bottom } = button.getBoundingClientRect();
    const item = (id, work) => ({ id, label: `graphs.${id}`, isDanger: id === "delete", run: () => work(graph) });
    const { openMenu } = await import("./context-menu.js");
    openMenu({ t }, [item("rename", graphs.rename), item("duplicate", graphs.duplicate), item("delete", graphs.remove)], {}, left, bottom);
  }

  // Where nodes stand in a graph, small; nothing where it has none.
  function picture(boxes) {
    if (!boxes?.length) return null;
    const [x1, y1] = [0, 1].map((i) => Math.min(...boxes.map((box) => box[i])));
    const [x2, y2] = [0, 1].map((i) => Math.max(...boxes.map((box) => box[i] + box[i + 2])));
    const k = Math.min((PICTURE.w - 2 * PICTURE.edge) / (x2 - x1 || 1), (PICTURE.h - 2 * PICTURE.edge) / (y2 - y1 || 1), 0.25);
    const [dx, dy] = [(PICTURE.w - (x2 - x1) * k) / 2, (PICTURE.h - (y2 - y1) * k) / 2];
    return svg("svg.graph-picture", { viewBox: `0 0 ${PICTURE.w} ${PICTURE.h}`, "aria-hidden": "true" }, boxes.map(([x, y, w, high]) =>
      svg("rect", { x: round(dx + (x - x1) * k), y: round(dy + (y - y1) * k), width: Math.max(1.5, round(w * k)), height: Math.max(1.5, round(high * k)), rx: 1, class: w * high > 90_000 ? "frame" : undefined })));
  }

  const round = (value) => Math.round(value * 10) / 10;

  return { draw };
}
