// The automations of this graph or of all: a row each, one run at a time, and the way to make one.

import { ApiError } from "../api.js";
import { writtenOf } from "../chat/segments.js";
import { createParts, h, named, replace } from "../dom.js";
import { icon } from "../icons.js";
import { kept } from "../kept.js";
import { mayEdit } from "../roles.js";
import { createRow } from "./row.js";
import { actOn, getAutomation, listRuns, listTemplates, removeAutomation } from "./service.js";

export function mountAutomations(app, element) {
  const { store, t } = app;
  const top = h("div.threads-top");
  const rules = h("div.auto-rules");
  const list = h("div.auto-list");
  const place = h("div.auto-place", { hidden: true });
  const [drawTop, drawList] = [top, list].map(createParts);
  const known = app.automations;
  const panel = { templates: {}, runs: new Map(), view: null };
  const act = { toggle, run, takeOver, edit, remove, toggleRuns, tryIt, showRun: (id) => store.set({ runShown: id }) };
  element.classList.add("automations");
  replace(element, top, rules, list, place);
  for (const part of ["me", "lang", "graphKey", "automationsError"]) store.on(part, draw);
  store.on("panel", (now) => now === "automations" && (known.load(), loadRules()));
  store.on("automations", more);
  store.on("runShown", showRun);
  draw();

  async function loadRules() {
    panel.rules ??= (await import("./rules.js")).createRules(app, rules);
    await panel.rules.load();
  }

  // Reads what is shown beside the list: the runs that are open, and what to begin with where there is none.
  async function more() {
    const { automations, lang } = store.get();
    draw();
    try {
      if (automations?.length === 0) panel.templates[lang] ??= await listTemplates(app.api);
      await Promise.all((automations ?? []).filter((one) => panel.runs.has(one.id)).map((one) => readRuns(one.id)));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      store.set({ automationsError: error });
    }
    draw();
  }

  async function readRuns(id) {
    panel.runs.set(id, await listRuns(app.api, id));
  }

  function draw() {
    const { automations, automationsError: error, lang, graphKey, me } = store.get();
    const { runs } = panel;
    drawTop([
      { key: "title", facts: [lang], make: () => h("h2", t("panel.automations")) },
      { key: "scope", facts: [lang], make: chooser },
      { key: "new", facts: [lang, graphKey, me?.role], make: () => h("button.primary", { type: "button", disabled: !graphKey || !mayEdit(me), title: t("auto.new_title"), onclick: () => create({}) }, icon("plus"), t("threads.new")) },
    ]);
    if (error) drawList([{ key: "failed", facts: [lang, error], make: () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: known.load }, t("app.retry"))) }]);
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
    const select = h("select", ["graph", "all"].map((value) => h("option", { value, selected: value === known.scope }, t(`threads.scope.${value}`))));
    select.addEventListener("change", () => {
      known.scope = select.value;
      kept.put("automations.scope", known.scope);
      known.load();
    });
    return named(t("threads.scope"), select);
  }

  const create = async (given) => (await import("./making.js")).makeAutomation(app, given);

  function edit(automation) {
    return asked(async () => {
      const full = await getAutomation(app.api, automation.id);
      const { text, blocks } = writtenOf(full.messages.filter((one) => one.role === "user"));
      await (await import("./making.js")).openAutomation(app, { ...full, message: text, blocks });
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
    await known.load();
  }

  async function showRun(id) {
    const { createRunView } = id ? await import("./run.js") : {};
    showInPlace(id ? createRunView(app, id, { onBack: () => act.showRun(null), onChange: known.load }) : null);
  }

  async function tryIt(automation) {
    const { createTrial } = await import("./trial.js");
    showInPlace(createTrial(app, automation, { onBack: () => showInPlace(null), onRun: () => run(automation) }));
  }

  // Shows a view in place of the list, or the list.
  function showInPlace(view) {
    panel.view?.destroy();
    panel.view = view;
    top.hidden = rules.hidden = list.hidden = Boolean(view);
    place.hidden = !view;
    replace(place, view?.element ?? "");
    if (!view) return;
    store.set({ panel: "automations" });
    view.focus();
  }
}
