// What is done to whole graphs: importing files, new, renamed, copied, deleted and restored ones, downloads.

import { h } from "./dom.js";
import { createDownload } from "./download.js";

// `load()` reads the list of graphs again.
export function createWholeGraphs(app, load) {
  const { store, api, t, toast, openDialog, path } = app;

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

  // Imports the sample that comes with the service, and opens it.
  async function openSample() {
    try {
      const answer = await fetch("/web/sample.json");
      if (!answer.ok) throw new Error(t("error.status", { status: answer.status }));
      await importAll([new File([await answer.blob()], "order-refund.json")]);
    } catch (error) {
      toast("error", error instanceof TypeError ? t("error.network") : error.message);
    }
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

  // Does a work of the service, shows the graphs again and says it; resolves to its answer, or to null where it failed.
  async function change(work, said, action) {
    try {
      const answer = await work();
      await load();
      if (said) toast("ok", said, { action });
      return answer;
    } catch (error) {
      toast("error", error.message);
      return null;
    }
  }

  async function create() {
    const made = await ask();
    const workspace = made && (await chooseWorkspace());
    if (!made || workspace === null) return;
    const found = await change(() => api.call("POST", "/api/graphs", { query: { workspace }, body: made }));
    if (found) app.live.open(found.graphKey, null);
  }

  // Resolves to a name and a family; only families are offered whose types were imported.
  async function ask() {
    const families = [...new Set(["nodius", ...(store.get().graphs ?? []).map((graph) => graph.category).filter((name) => name === "n8n" || name === "node-red")])];
    let made = null;
    const name = h("input", { id: "graph-name", maxlength: 200, required: true, autocomplete: "off" });
    const type = h("select", { id: "graph-family" }, families.map((family) => h("option", { value: family }, t(`graphs.family.${family}`))));
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      if (!name.value.trim()) return;
      made = { name: name.value.trim(), type: type.value };
      dialog.close();
    } }, h("label", { for: "graph-name" }, t("graphs.name")), name,
      families.length > 1 ? [h("label", { for: "graph-family" }, t("graphs.family")), type] : null,
      h("div.dialog-actions", h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), h("button.primary", { type: "submit" }, t("app.ok"))));
    const dialog = openDialog({ title: t("graphs.new"), content: form });
    name.focus();
    await dialog.closed;
    return made;
  }

  async function rename({ graphKey, name }) {
    const wanted = await app.prompt({ title: t("graphs.rename"), label: t("graphs.name"), value: name });
    if (wanted && wanted !== name) await change(() => api.call("PATCH", path`/api/graphs/${graphKey}`, { body: { name: wanted } }));
  }

  async function duplicate({ graphKey, name }) {
    const done = toast("info", t("graphs.copying", { name }));
    const copy = t("graphs.copy_of", { name }).slice(0, 200);
    await change(() => api.call("POST", path`/api/graphs/${graphKey}/duplicate`, { body: { name: copy }, isLong: true }), copy);
    done();
  }

  async function remove(graph) {
    const { name, nodes } = graph;
    if (!(await app.confirm({ title: t("graphs.delete"), text: t("graphs.delete_sure", { name, n: nodes }), ok: t("inspector.delete"), danger: true }))) return;
    await change(() => api.call("DELETE", path`/api/graphs/${graph.graphKey}`, { isLong: true }), t("graphs.deleted", { name }), { label: t("graphs.restore"), run: () => restore(graph) });
  }

  const restore = ({ graphKey, name }) => change(() => api.call("POST", path`/api/graphs/${graphKey}/restore`, { isLong: true }), t("graphs.restored", { name }));

  return { pick, importAll, openSample, exportGraph: createDownload(app), create, rename, duplicate, remove, restore };
}
