// The automations of this graph or of all: a row each, one run at a time, and the way to make one.

import { ApiError } from "../api.js";
import { writtenOf } from "../chat/segments.js";
import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { kept } from "../kept.js";
import { mayEdit } from "../roles.js";
import { openForm } from "./form.js";
import { followRuns, watchRuns } from "./news.js";
import { createRow } from "./row.js";
import { createRunView } from "./run.js";
import { actOn, getAutomation, listAutomations, listRuns, listTemplates, removeAutomation } from "./service.js";

export function mountAutomations(app, element) {
  const { store, t } = app;
  const top = h("div.threads-top");
  const list = h("div.auto-list");
  const place = h("div.auto-place", { hidden: true });
  const [drawTop, drawList] = [top, list].map(createParts);
  const panel = { scope: kept.get("automations.scope") ?? "graph", error: null, templates: {}, runs: new Map(), view: null, asked: 0 };
  const act = { toggle, run, takeOver, edit, remove, toggleRuns, showRun: (id) => store.set({ runShown: id }) };
  app.automations = { create, open };
  element.classList.add("automations");
  replace(element, top, list, place);
  followRuns(app);
  watchRuns(app, load);
  for (const part of ["me", "lang"]) store.on(part, load);
  store.on("graphKey", () => {
    store.set({ automations: null, runShown: null });
    load();
  });
  store.on("panel", (now) => now === "automations" && load());
  store.on("automations", draw);
  store.on("runShown", showRun);
  draw();

  async function load() {
    const { graphKey, me, lang } = store.get();
    if (!me) return;
    const mine = ++panel.asked;
    try {
      const automations = await listAutomations(app.api, panel.scope === "graph" ? graphKey : null);
      if (!automations.length) panel.templates[lang] ??= await listTemplates(app.api);
      await Promise.all(automations.filter((one) => panel.runs.has(one.id)).map((one) => readRuns(one.id)));
      if (mine !== panel.asked) return; // another graph or language meanwhile
      panel.error = null;
      const review = { ...store.get().badges, automations: automations.reduce((sum, one) => sum + one.waiting, 0) };
      store.set({ automations, badges: review });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine !== panel.asked) return;
      panel.error = error;
    }
    draw();
  }

  async function readRuns(id) {
    panel.runs.set(id, await listRuns(app.api, id));
  }

  function draw() {
    const { automations, lang, graphKey, me } = store.get();
    const { error, runs } = panel;
    drawTop([
      { key: "title", facts: [lang], make: () => h("h2", t("panel.automations")) },
      { key: "scope", facts: [lang], make: chooser },
      { key: "new", facts: [lang, graphKey, me?.role], make: () => h("button.primary", { type: "button", disabled: !graphKey || !mayEdit(me), title: t("auto.new_title"), onclick: () => create({}) }, icon("plus"), t("threads.new")) },
    ]);
    if (error) drawList([{ key: "failed", facts: [lang, error], make: () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: load }, t("app.retry"))) }]);
    else if (automations === null) drawList([{ key: "loading", facts: [lang], make: () => h("p.notice-line", { role: "status" }, t("auto.loading")) }]);
    else if (!automations.length) drawList([{ key: "empty", facts: [lang, graphKey, me?.role, panel.templates[lang]], make: empty }]);
    else drawList(automations.map((one) => ({ key: one.id, facts: [lang, JSON.stringify(one), graphKey, me?.role, runs.has(one.id), JSON.stringify(runs.get(one.id))], make: () => createRow(app, one, { runs: runs.get(one.id), act }) })));
  }

  function empty() {
    const { graphKey, me, lang } = store.get();
    const mayMake = graphKey && mayEdit(me);
    return h("div.auto-empty", h("p.notice-title", t("auto.empty")), h("p.note", t("auto.empty_hint")),
      mayMake ? h("ul", (panel.templates[lang] ?? []).map((template, i) => h("li", h("button", { type: "button", class: i ? undefined : "primary", onclick: () => create(template) }, template.name), h("p.note", template.about)))) : h("p.note", t(graphKey ? "auto.viewer" : "chat.no_graph_hint")));
  }

  function chooser() {
    const select = h("select", { "aria-label": t("threads.scope") }, ["graph", "all"].map((value) => h("option", { value, selected: value === panel.scope }, t(`threads.scope.${value}`))));
    select.addEventListener("change", () => {
      panel.scope = select.value;
      kept.put("automations.scope", panel.scope);
      load();
    });
    return select;
  }

  // Makes an automation of the open graph, from a template or from what was said in a conversation.
  function create({ id, name, about, messages, ...fields }) {
    const { text, blocks } = writtenOf(messages ?? []);
    return open({ name, ...(messages ? { message: text, blocks } : fields), graphKey: store.get().graphKey });
  }

  // Opens the form, and shows what came of it; what is tried is asked in a conversation from which the form opens again.
  async function open(given) {
    const { made, tried } = (await openForm(app, given)) ?? {};
    if (made) {
      app.toast("ok", t(given.id ? "auto.changed" : "auto.added", { name: made.name }));
      app.chat?.tryOut(null);
      store.set({ panel: "automations", runShown: null });
      load();
    } else if (tried) {
      store.set({ panel: "chat" });
      app.chat.tryOut({ ...tried, isTried: true });
    }
  }

  function edit(automation) {
    return asked(async () => {
      const full = await getAutomation(app.api, automation.id);
      const { text, blocks } = writtenOf(full.messages.filter((one) => one.role === "user"));
      await open({ ...full, message: text, blocks });
    });
  }

  function toggle({ id, enabled }) {
    return asked(() => actOn(app.api, id, enabled ? "pause" : "enable"));
  }

  function run({ id }) {
    return asked(async () => act.showRun((await actOn(app.api, id, "run")).sessionId));
  }

  function takeOver({ id }) {
    return asked(() => actOn(app.api, id, "take-over"));
  }

  async function remove(automation) {
    const { name } = automation;
    if (await app.confirm({ title: t("auto.remove_title"), text: t("auto.remove_text", { name }), ok: t("auto.remove"), danger: true })) {
      await asked(() => removeAutomation(app.api, automation.id));
    }
  }

  async function toggleRuns({ id }) {
    if (panel.runs.delete(id)) return draw();
    panel.runs.set(id, null);
    draw();
    return asked(() => readRuns(id));
  }

  // Does something, says what the server refuses, and looks again.
  async function asked(work) {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    await load();
  }

  function showRun(id) {
    panel.view?.destroy();
    panel.view = id ? createRunView(app, id, { onBack: () => act.showRun(null), onChange: load }) : null;
    top.hidden = list.hidden = Boolean(id);
    place.hidden = !id;
    replace(place, panel.view?.element ?? "");
    if (!id) return;
    store.set({ panel: "automations" });
    panel.view.focus();
  }
}
