// The graphs of this person: the list, importing by file, exporting.

import { h } from "./dom.js";
import { icon } from "./icons.js";

export function createGraphs(app) {
  const { store, api, t, toast, openDialog, path } = app;

  async function load() {
    try {
      const { graphs } = await api.get("/api/graphs");
      graphs.sort((a, b) => (b.lastUpdatedTime ?? 0) - (a.lastUpdatedTime ?? 0) || a.name.localeCompare(b.name));
      store.set({ graphs, graphsError: null });
    } catch (error) {
      store.set({ graphsError: error });
    }
  }

  function pick() {
    const input = h("input", { type: "file", accept: ".json,application/json", multiple: true, onchange: () => importAll([...input.files]) });
    input.click();
  }

  async function importAll(files) {
    const workspace = await chooseWorkspace();
    if (workspace === null) return;
    let last = null;
    for (const file of files) last = (await importOne(file, workspace)) ?? last;
    await load();
    if (last && files.length === 1) app.live.open(last, null);
  }

  async function importOne(file, workspace, { replace: isReplacing = false } = {}) {
    const done = toast("info", t("graphs.importing", { name: file.name }));
    try {
      const query = { fileName: file.name.slice(-200), workspace, ...(isReplacing ? { replace: true } : {}) };
      const found = await api.call("POST", "/api/graphs/import", { query, raw: await file.text(), isLong: true });
      imported(file, workspace, found);
      return found.graphKey;
    } catch (error) {
      toast("error", t("graphs.not_imported", { name: file.name, reason: error.message }));
      return null;
    } finally {
      done();
    }
  }

  // Says what became of a file; where people had changed the graph, what of it was kept and what is to be decided.
  function imported(file, workspace, found) {
    const { taken = 0, kept = 0, conflicts = 0, approval } = found;
    const remarks = (found.remarks ?? []).filter((text) => !approval || !text.includes(approval)); // the page says it in a sentence of its own
    const facts = { name: file.name, nodes: found.nodes, edges: found.edges };
    if (!kept && !conflicts) {
      const showing = { label: t("graphs.show_remarks", { n: remarks.length }), run: () => openDialog({ title: t("graphs.remarks"), content: list(remarks) }) };
      const replacing = { label: t("graphs.replace"), run: () => replaceAll(file, workspace) }; // the file is known, the graph may differ
      const action = remarks.length ? showing : found.action === "unchanged" ? replacing : undefined;
      toast("ok", t(`graphs.imported.${found.action}`, facts), { action });
      return;
    }
    const lines = Object.entries({ taken, kept, conflicts }).filter(([, n]) => n).map(([what, n]) => t(`graphs.${what}`, { n }));
    const details = { label: t("graphs.details"), run: () => showMerge(file, workspace, { ...found, remarks }, lines) };
    toast(conflicts ? "warn" : "ok", `${t("graphs.merged", facts)} ${lines.join(" · ")}`, { action: details });
  }

  const list = (texts) => h("ul", texts.map((text) => h("li", text)));

  function showMerge(file, workspace, found, lines) {
    const decide = async () => {
      dialog.close();
      if (found.graphKey !== store.get().graphKey) await app.live.open(found.graphKey, null);
      store.set({ panel: "review", reviewView: "open" });
    };
    const dialog = openDialog({
      title: t("graphs.merged", { name: file.name }),
      content: [h("p", t("graphs.merged_hint")), list(lines), found.remarks.length ? h("section", h("h3", t("graphs.remarks")), list(found.remarks)) : null].filter(Boolean),
      actions: [
        h("button.quiet-danger", { type: "button", onclick: () => (dialog.close(), replaceAll(file, workspace)) }, t("graphs.replace")),
        found.approval ? h("button.primary", { type: "button", onclick: decide }, t("graphs.decide", { n: found.conflicts })) : null,
      ].filter(Boolean),
    });
  }

  async function replaceAll(file, workspace) {
    const isSure = await app.confirm({ title: t("graphs.replace"), text: t("graphs.replace_sure", { name: file.name }), ok: t("graphs.replace_yes"), danger: true });
    if (!isSure) return;
    const key = await importOne(file, workspace, { replace: true });
    await load();
    if (key && key === store.get().graphKey) app.live.refresh();
  }

  // Resolves to the workspace, undefined where there is only one, null when the person changed their mind.
  async function chooseWorkspace() {
    const names = store.get().me?.workspaces ?? [];
    if (names.length < 2) return undefined;
    let chosen = null;
    const dialog = openDialog({
      title: t("graphs.choose_workspace"),
      content: h("div.choices", names.map((name) =>
        h("button", { type: "button", onclick: () => ((chosen = name), dialog.close()) }, name))),
    });
    await dialog.closed;
    return chosen;
  }

  async function exportGraph(graph) {
    try {
      const document_ = await api.get(path`/api/graphs/${graph.graphKey}/export`, null, { isLong: true });
      const url = URL.createObjectURL(new Blob([JSON.stringify(document_, null, 2)], { type: "application/json" }));
      const link = h("a", { href: url, download: `${graph.graphKey.replace(/[^\w.-]+/g, "_")}.json` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      toast("ok", t("graphs.exported", { name: graph.name }));
    } catch (error) {
      toast("error", error.message);
    }
  }

  listenForDrops(importAll, t);
  return { load, pick, importAll, exportGraph };
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
