// Downloads a graph: as Nodius JSON, or as a file of the tool that it came from.

import { h } from "./dom.js";

const TOOLS = { n8n: "n8n", "node-red": "Node-RED" };

// Returns the function that downloads {graphKey, name, category?}.
export function createDownload({ api, store, path, t, toast, openDialog }) {
  return async function download(graph) {
    const category = graph.category ?? (store.get().graphKey === graph.graphKey ? store.get().graph?.category : "");
    const format = TOOLS[category] ? await choose(category) : "nodius";
    if (!format) return;
    try {
      const { text, remarks } = format === "nodius" ? await whole(graph) : await api.post(path`/api/graphs/${graph.graphKey}/copy`, { format }, { isLong: true, isRead: true });
      saveText(text, `${graph.graphKey.replace(/[^\w.-]+/g, "_")}.json`);
      toast("ok", t("graphs.exported", { name: graph.name }));
      if (remarks.length) toast("warn", `${t("export.left_out")} ${remarks.slice(0, 5).join(" · ")}`);
    } catch (error) {
      toast("error", error.message);
    }
  };

  async function whole(graph) {
    const document_ = await api.get(path`/api/graphs/${graph.graphKey}/export`, null, { isLong: true });
    return { text: JSON.stringify(document_, null, 2), remarks: [] };
  }

  async function choose(category) {
    let chosen = null;
    const choice = (format, name, about) =>
      h("button", { type: "button", onclick: () => ((chosen = format), dialog.close()) }, h("strong", name), h("span", ` ${about}`));
    const dialog = openDialog({
      title: t("graphs.export"),
      content: h("div.choices",
        choice(category, t("export.tool", { tool: TOOLS[category] }), t("export.tool_about")),
        choice("nodius", t("export.nodius"), t("export.nodius_about"))),
    });
    await dialog.closed;
    return chosen;
  }
}

// Gives the browser a text as a file.
export function saveText(text, name, type = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
