// The dialog of the connected servers: where their workflows stand, synchronising now, connecting and disconnecting.

import { ApiError } from "../api.js";
import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { ago } from "../names.js";
import { mayAdminister, mayEdit } from "../roles.js";
import { PRODUCTS, pageLink, stateElement } from "./facts.js";
import { createPushes } from "./pushes.js";
import { getConnection, listConnections, removeConnection, syncConnection } from "./service.js";

const SOON_MS = 500; // while one is synchronised
const AGAIN_MS = 10_000;

export function showConnections(app) {
  const { store, t } = app;
  const list = h("div.server-list");
  const drawParts = createParts(list);
  const panel = { connections: null, error: null, details: new Map(), creations: new Map(), timer: 0 };
  const add = h("button.primary", { type: "button", hidden: !mayAdminister(store.get().me), onclick: create }, icon("plus"), t("servers.new"));
  const dialog = app.openDialog({ title: t("servers.title"), content: [h("p.note", t("servers.about")), list], actions: [add], wide: true, onClose: close });
  draw();
  load();
  return dialog;

  function close() {
    clearTimeout(panel.timer);
    app.links?.load();
  }

  async function load() {
    clearTimeout(panel.timer);
    const before = panel.connections;
    try {
      panel.connections = await listConnections(app.api);
      panel.error = null;
      await Promise.all([...panel.details.keys()].map(readDetail));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      panel.error = error;
    }
    if (!dialog.element.open) return;
    const isRunning = panel.connections?.some((one) => one.sync);
    if (!isRunning && before?.some((one) => one.sync)) app.graphs.load(); // there may be new ones
    draw();
    panel.timer = setTimeout(load, isRunning ? SOON_MS : AGAIN_MS);
  }

  async function readDetail(name) {
    if (panel.connections.some((one) => one.name === name)) panel.details.set(name, (await getConnection(app.api, name)).workflows);
    else panel.details.delete(name);
  }

  function draw() {
    const { connections, error, details } = panel;
    const { lang, me } = store.get();
    if (error) drawParts([{ key: "failed", facts: [error], make: () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: load }, t("app.retry"))) }]);
    else if (!connections) drawParts([{ key: "loading", facts: [], make: () => h("p.notice-line", { role: "status" }, t("servers.loading")) }]);
    else if (!connections.length) drawParts([{ key: "empty", facts: [], make: () => h("div.auto-empty", h("p.notice-title", t("servers.empty")), h("p.note", t(mayAdminister(me) ? "servers.empty_hint" : "servers.admins"))) }]);
    else drawParts(connections.map((one) => ({ key: one.name, facts: [lang, me?.role, JSON.stringify(one), JSON.stringify(details.get(one.name)), creation(one)], make: () => row(one) })));
  }

  function row(connection) {
    const { name, kind, address, states, version, lastSyncedTime, lastError, missingRights, sync } = connection;
    const { lang, me } = store.get();
    const heading = `server-${name}`;
    const counts = Object.entries(states).map(([state, n]) => h("li", `${n} `, stateElement(app, state)));
    const workflows = panel.details.get(name);
    return h("article.auto", { "aria-labelledby": heading, dataset: { connection: name } },
      h("header.auto-head", h("h3", { id: heading }, name), h("span.muted", [PRODUCTS[kind], version].filter(Boolean).join(" "))),
      h("p.server-address", address),
      sync ? progress(sync) : counts.length ? h("ul.server-states", counts) : h("p.note", t("servers.none_read")),
      lastError ? h("p.warn-text", { role: "alert" }, lastError) : "",
      missingRights.length ? h("p.warn-text", t("servers.lacks", { rights: missingRights.join(", ") })) : "",
      h("p.card-meta", [lastSyncedTime ? t("servers.synced", { when: ago(lastSyncedTime, lang, t) }) : t("servers.never"), intervalText(connection)].join(" · ")),
      h("div.card-buttons",
        mayEdit(me) ? button("servers.sync", "retry", name, () => act(() => syncConnection(app.api, name)), { disabled: Boolean(sync) }) : "",
        button("servers.workflows", "threads", name, () => toggle(name), { "aria-expanded": String(workflows !== undefined) }),
        h("span.grow"),
        mayAdminister(me) && connection.isKeyRefused ? button("servers.new_key", "pencil", name, () => create(connection)) : "",
        mayAdminister(me) ? button("servers.disconnect", "trash", name, () => disconnect(connection)) : ""),
      workflows === undefined ? "" : workflowList(connection, workflows),
      creation(connection) ?? "");
  }

  // Makes the open graph a new workflow of an n8n server; none where it is one of them already.
  function creation({ name, kind, push }) {
    const { graphKey, me } = store.get();
    const isLinked = () => store.get().links?.some((link) => link.connection === name);
    if (!panel.creations.has(name)) {
      if (kind !== "n8n" || push === "never" || !graphKey || !mayEdit(me) || isLinked()) return null;
      const made = createPushes(app, { connection: name, kind, push }, { actions: () => (isLinked() ? [] : ["create"]), onWritten: created });
      panel.creations.set(name, made);
      made.load().catch((error) => {
        if (!(error instanceof ApiError)) throw error; // it is read again with the next press
      });
    }
    return panel.creations.get(name).element;
  }

  async function created() {
    await app.links.load();
    await load();
  }

  function button(key, glyph, name, run, more = {}) {
    return h("button", { type: "button", "aria-label": `${t(key)}: ${name}`, onclick: run, ...more }, icon(glyph), t(key));
  }

  function progress({ done, total }) {
    return h("label.server-progress", h("span", { role: "status" }, total ? t("servers.reading", { done, total }) : t("servers.reading_list")),
      h("progress", total ? { value: String(done), max: String(total) } : {}));
  }

  function intervalText({ intervalS }) {
    return intervalS ? t("servers.every", { n: Math.round(intervalS / 60) || 1 }) : t("servers.on_request");
  }

  function workflowList({ kind }, workflows) {
    if (workflows === null) return h("p.note", { role: "status" }, t("servers.loading"));
    return h("ul.server-workflows", workflows.map((one) => h("li",
      one.graph ? h("button.link", { type: "button", onclick: () => open(one.graph) }, one.name) : h("span", one.name), " ",
      stateElement(app, one.state), h("span.grow"), pageLink(app, { ...one, kind }), one.reason ? h("p.note", one.reason) : "")));
  }

  function open(graphKey) {
    dialog.close();
    app.live.open(graphKey, null);
  }

  async function toggle(name) {
    if (panel.details.delete(name)) return draw();
    panel.details.set(name, null);
    draw();
    return load();
  }

  async function create(given = {}) {
    const { openConnectionForm } = await import("./form.js");
    if (await openConnectionForm(app, given)) await load();
  }

  async function disconnect({ name }) {
    const isSure = await app.confirm({ title: t("servers.disconnect_title"), text: t("servers.disconnect_text", { name }), ok: t("servers.disconnect"), danger: true });
    if (isSure) await act(() => removeConnection(app.api, name));
  }

  // Does something, says what the server refuses, and looks again.
  async function act(work) {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    await load();
  }
}
