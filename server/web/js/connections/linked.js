// The dialog of a graph that is connected: where it stands, its workflow's own editor, what changed on each side.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { ago } from "../names.js";
import { renderChanges } from "../review/changes.js";
import { mayEdit } from "../roles.js";
import { PRODUCTS, pageLink, stateElement, stateText } from "./facts.js";
import { createPushes } from "./pushes.js";
import { compareWorkflow, getConnection, syncConnection } from "./service.js";

const AGAIN_MS = 500; // between two looks at a synchronisation that runs

export function showLinked(app) {
  const { store, t } = app;
  const body = h("div.linked");
  const dialog = app.openDialog({ title: t("servers.of_graph"), content: body, wide: true, onClose: () => stops.forEach((stop) => stop()) });
  const compared = new Map(); // workflow id -> what was found
  const pushes = new Map(); // connection and workflow id -> what is written back
  const stops = ["links", "lang"].map((part) => store.on(part, draw));
  draw();

  function draw() {
    const { links } = store.get();
    replace(body, links.length ? links.map(section) : h("p", t("servers.not_linked")));
  }

  function section(link) {
    const { lang, me } = store.get();
    const found = compared.get(link.id);
    const writing = pushesOf(link);
    const result = h("div.linked-result", { role: "status" }, found === undefined ? "" : found);
    const button = (key, glyph, run, kind) => h("button", { type: "button", class: kind, onclick: run }, icon(glyph), t(key));
    return h("section.linked-one", { "aria-label": link.name },
      h("p.linked-head", h("strong", link.name), " ", stateElement(app, link.state)),
      h("p", stateText(app, link)),
      h("p.card-meta", [`${PRODUCTS[link.kind]} · ${link.connection}`, t("servers.synced", { when: ago(link.lastSyncedTime, lang, t) }), link.hasUnpublished && t("servers.unpublished")].filter(Boolean).join(" · ")),
      h("div.card-buttons",
        pageLink(app, link),
        link.approval ? button("servers.decide", "review", () => decide(link), "primary") : "",
        mayEdit(me) ? button("servers.sync", "retry", () => synchronise(link, result)) : "",
        mayEdit(me) ? button("servers.compare", "eye", () => compare(link, result)) : ""),
      result, writing);
  }

  // Nothing is said of writing back where nobody ever allowed it.
  function pushesOf(link) {
    const key = `${link.connection}/${link.id}`;
    if (!pushes.has(key)) {
      const made = createPushes(app, link, { actions: () => (link.kind === "n8n" ? ["push", "publish"] : ["push"]), onWritten: app.links.load });
      pushes.set(key, made);
      made.load().catch((error) => {
        if (!(error instanceof ApiError)) throw error; // it is read again with the next press
      });
    }
    return pushes.get(key).element;
  }

  function decide({ approval }) {
    dialog.close();
    store.set({ panel: "review", reviewShown: approval });
  }

  async function compare({ connection, id }, result) {
    replace(result, h("p.note", t("servers.comparing")));
    try {
      const { here, there } = await compareWorkflow(app.api, connection, id);
      const side = (key, preview) => h("section", h("h3", t(key)), Object.keys(preview ?? {}).length ? renderChanges(app, preview) : h("p.note", t("servers.nothing")));
      compared.set(id, [side("servers.here", here), side("servers.there", there)]);
      replace(result, compared.get(id));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(result, h("p.warn-text", { role: "alert" }, error.message));
    }
    await app.links.load();
  }

  // Synchronises, and shows where the graph stands once that is done.
  async function synchronise({ connection }, result) {
    compared.clear();
    replace(result, h("p.note", t("servers.reading_list")));
    try {
      let { sync } = await syncConnection(app.api, connection);
      while (sync) {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        ({ sync } = await getConnection(app.api, connection));
      }
      replace(result);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(result, h("p.warn-text", { role: "alert" }, error.message));
    }
    await app.links.load();
  }
}
