// The agents of the workspace: a row each, one at a time whole, and the way to make one.

import { ApiError } from "../api.js";
import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { mayAdminister } from "../roles.js";
import { createAgentRow } from "./row.js";
import { actOnAgent } from "./service.js";

const AGAIN_MS = 3000; // while one starts, or its last conversations end
const PASSING = ["starting", "draining"];

export function mountAgents(app, element) {
  const { store, t } = app;
  const top = h("div.threads-top");
  const list = h("div.auto-list");
  const place = h("div.auto-place", { hidden: true });
  const [drawTop, drawList] = [top, list].map(createParts);
  const panel = { view: null, id: null, timer: 0, openings: 0 };
  const { load } = app.agents;
  element.classList.add("automations");
  replace(element, top, list, place);
  for (const part of ["me", "lang", "agentsError"]) store.on(part, draw);
  store.on("agents", (agents) => {
    clearTimeout(panel.timer);
    const isShown = store.get().panel === "agents" && document.visibilityState !== "hidden";
    if (isShown && agents.some((one) => PASSING.includes(one.state))) panel.timer = setTimeout(() => (load(), panel.view?.look()), AGAIN_MS);
    draw();
  });
  store.on("agentShown", (id) => id !== panel.id && open(id));
  draw();

  function draw() {
    const { agents, agentsError: error, lang, me } = store.get();
    drawTop([
      { key: "title", facts: [lang], make: () => h("h2", t("panel.agents")) },
      { key: "new", facts: [lang, me?.role], make: () => h("button.primary", { type: "button", disabled: !mayAdminister(me), title: t("agents.new_title"), onclick: () => show("") }, icon("plus"), t("agents.new")) },
    ]);
    if (error) drawList([{ key: "failed", facts: [lang, error], make: () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: load }, t("app.retry"))) }]);
    else if (!agents) drawList([{ key: "loading", facts: [lang], make: () => h("p.notice-line", { role: "status" }, t("agents.loading")) }]);
    else if (!agents.length) drawList([{ key: "empty", facts: [lang], make: () => h("div.auto-empty", h("p.notice-title", t("agents.empty")), h("p.note", t("agents.empty_hint")), h("pre.code-shown", { tabindex: "0" }, t("agents.empty_command"))) }]);
    else drawList(agents.map((one) => ({ key: one.id, facts: [lang, JSON.stringify(one), me?.role], make: () => createAgentRow(app, one, { show, toggle }) })));
  }

  // Shows one agent; the empty id is a new one, null the list. An agent that is stored has an address.
  function show(id) {
    if ((id || null) === store.get().agentShown) return open(id);
    return store.set({ agentShown: id || null });
  }

  async function open(id) {
    if (panel.view && panel.id !== id && !(await panel.view.mayLeave())) return store.set({ agentShown: panel.id || null });
    const opening = ++panel.openings;
    const { createAgentView } = id === null ? {} : await import("./view.js");
    if (opening !== panel.openings) return; // another one was opened meanwhile
    panel.view?.destroy();
    panel.id = id;
    panel.view = id === null ? null : createAgentView(app, id || null, { onShow: show, onChange: load, toggle, blank: blank() });
    top.hidden = list.hidden = id !== null;
    place.hidden = id === null;
    replace(place, panel.view?.element ?? "");
    if (!panel.view) return load();
    store.set({ panel: "agents" });
    return panel.view.focus();
  }

  function blank() {
    const { graphKey, lang } = store.get();
    return JSON.stringify({ version: "2.0", agent: { id: "helpdesk", name: "Helpdesk", language: lang }, graphs: graphKey ? [graphKey] : [], channels: ["chat"], session: { mode: "inline", instructions: t("agents.first_words"), tools: [] } }, null, 2);
  }

  async function toggle({ id, desired }, button) {
    button.disabled = true;
    try {
      await actOnAgent(app.api, id, desired === "running" ? "stop" : "start");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    button.disabled = false;
    await Promise.all([load(), panel.view?.look()]);
  }
}
