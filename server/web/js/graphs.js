// The graphs of this person: the list; what is done to them is read when it is first asked for.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const WORKS = ["pick", "importAll", "openSample", "exportGraph", "create", "rename", "duplicate", "remove", "restore"];

export function createGraphs(app) {
  const { store, api, t } = app;
  let whole = null;

  async function load() {
    try {
      const { graphs } = await api.get("/api/graphs");
      graphs.sort((a, b) => (b.lastUpdatedTime ?? 0) - (a.lastUpdatedTime ?? 0) || a.name.localeCompare(b.name));
      store.set({ graphs, graphsError: null });
    } catch (error) {
      store.set({ graphsError: error });
    }
  }

  // What the list of graphs shows beside the graphs: small pictures of them, and what can be restored.
  let seen = null; // the list that they belong to
  async function look() {
    const { graphs } = store.get();
    if (seen === graphs) return;
    seen = graphs;
    const [pictures, gone] = await Promise.all([api.get("/api/thumbnails"), api.get("/api/deleted-graphs")]).catch(() => []);
    if (gone) store.set({ thumbnails: new Map(pictures.thumbnails.map((one) => [one.graphKey, one.boxes])), deletedGraphs: gone.graphs });
  }

  const work = (name) => async (...given) => (whole ??= (await import("./whole-graphs.js")).createWholeGraphs(app, load))[name](...given);
  const works = Object.fromEntries(WORKS.map((name) => [name, work(name)]));
  listenForDrops(works.importAll, t);
  return { load, look, ...works };
}

// Files may be dropped anywhere on the page.
function listenForDrops(importAll, t) {
  let depth = 0;
  const veil = h("div.drop-veil", { hidden: true }, icon("upload"), h("p", t("graphs.drop")));
  document.body.append(veil);
  const isFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const show = (delta) => {
    depth = Math.max(0, depth + delta);
    veil.hidden = depth === 0;
    veil.lastChild.textContent = t("graphs.drop");
  };
  addEventListener("dragenter", (event) => isFiles(event) && show(1));
  addEventListener("dragleave", (event) => isFiles(event) && show(-1));
  addEventListener("dragover", (event) => isFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!isFiles(event)) return;
    event.preventDefault();
    show(-depth);
    importAll([...event.dataTransfer.files]);
  });
}
