// One agent: its document with what is wrong in it, its versions, its tools tried dry, and what it owes.

import { ApiError } from "../api.js";
import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { personName, timeText } from "../names.js";
import { mayAdminister, mayAudit } from "../roles.js";
import { createDeliveries } from "./deliveries.js";
import { createEditor } from "./editor.js";
import { idOf } from "./places.js";
import { reasonsOf, standingOf, startButton } from "./row.js";
import { actOnAgent, checkDocument, getAgent, putDocument, removeAgent } from "./service.js";
import { createTrial } from "./trial.js";

// Returns the view of an agent, or (without an id) of a new one: `element`, `look()`, `destroy()`, `focus()`. `onShow(id)` shows
// another agent or (null) none, `onChange()` is called after something was done.
export function createAgentView(app, id, { onShow, onChange, toggle, blank }) {
  const { t, store } = app;
  const top = h("div.auto-run-top");
  const below = h("div.auto-run-top");
  const [drawTop, drawBelow] = [top, below].map(createParts);
  const status = h("p.note", { role: "status" });
  const isAdmin = mayAdminister(store.get().me);
  const editor = createEditor(app, { text: id ? "" : blank, label: t("agents.document"), isReadOnly: !isAdmin });
  const element = h("section.auto-run-view", top, editor.element,
    isAdmin ? h("div.card-buttons", button("agents.check", check), button("agents.save", save, "primary"), status) : "", below);
  const opened = new Set(["agents.deliveries"]); // sections, also once they are drawn again
  const view = { found: null, shown: null, error: null };
  const deliveries = id && mayAudit(store.get().me) ? createDeliveries(app, { agentId: id }) : null;
  const stopLang = store.on("lang", draw);
  draw();
  if (id) look();
  return { element, look, destroy: stopLang, focus: () => top.querySelector("button")?.focus() };

  // Reads the agent again; what a person has written stays.
  async function look(version) {
    try {
      const isWritten = view.found && editor.text !== view.shown;
      const found = await getAgent(app.api, id, version);
      Object.assign(view, { found, error: null });
      if (!isWritten) {
        editor.set(view.shown = JSON.stringify(found.document, null, 2));
        if (found.version === found.agent.version) editor.show(found.agent.problems ?? [], { isAsked: false });
      }
      deliveries?.load();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      view.error = error;
    }
    draw();
  }

  function draw() {
    const { lang, me } = store.get();
    const { found, error } = view;
    const part = (key, facts, make) => ({ key, facts: [lang, ...facts], make });
    const title = found?.agent.name ?? id ?? t("agents.new_title");
    drawTop([
      part("head", [title], () => h("header.auto-run-head", h("button.icon-button", { type: "button", "aria-label": t("agents.back"), title: t("agents.back"), onclick: () => onShow(null) }, icon("chevron")), h("h2", title))),
      ...(error ? [part("error", [error], () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: () => look() }, t("app.retry"))))] : []),
      ...(found ? [part("agent", [JSON.stringify(found.agent), me?.role], () => h("div.auto-run-top", standingOf(app, found.agent), reasonsOf(app, found.agent), h("div.card-buttons", startButton(app, found.agent, { toggle }), isAdmin && found.agent.state === "stopped" ? button("agents.remove", remove, "quiet-danger") : "")))] : []),
      part("title", [found?.version], () => h("h3", found ? t("agents.document_version", { version: found.version }) : t("agents.document"))),
    ]);
    drawBelow(found ? [
      part("versions", [JSON.stringify(found.versions), found.agent.version, found.version, me?.role], versions),
      ...(isAdmin ? [part("trial", [found.version, JSON.stringify(found.document.tools)], () => section("agents.trial", createTrial(app, id, found.document)))] : []),
      ...(deliveries ? [part("deliveries", [], () => section("agents.deliveries", deliveries.element))] : []),
    ] : []);
  }

  function button(key, onclick, kind) {
    return h("button", { type: "button", class: kind, onclick: (event) => asked(event.currentTarget, onclick) }, t(key));
  }

  function section(key, ...content) {
    return h("details.auto-budget", { open: opened.has(key), ontoggle: (event) => opened[event.currentTarget.open ? "add" : "delete"](key) }, h("summary", t(key)), content);
  }

  function versions() {
    const { found } = view;
    const { lang } = store.get();
    return section("agents.versions", h("ul.deliveries", found.versions.map((one) => h("li",
      h("span", t("agents.version", { version: one.version }), one.version === found.agent.version ? ` · ${t("agents.current")}` : ""), h("span.thread-facts", [timeText(one.createdTime, lang), personName(app, one.userId)].join(" · ")),
      one.version === found.version ? "" : h("button", { type: "button", "aria-label": `${t("agents.show_version")} ${one.version}`, onclick: () => showVersion(one.version) }, t("agents.show_version")),
      isAdmin && one.version !== found.agent.version ? h("button", { type: "button", "aria-label": `${t("agents.rollback")} ${one.version}`, onclick: (event) => asked(event.currentTarget, () => rollback(one.version)) }, t("agents.rollback")) : ""))));
  }

  function showVersion(version) {
    view.shown = editor.text; // what is shown is given up for the other version
    return look(version);
  }

  async function rollback(version) {
    await actOnAgent(app.api, id, "rollback", { version });
    await showVersion(undefined);
    onChange();
  }

  function said(errors, warnings) {
    editor.show([...errors, ...warnings.map((one) => ({ ...one, isWarning: true }))]);
    status.textContent = errors.length ? t("agents.errors", { n: errors.length }) : warnings.length ? t("agents.warnings", { n: warnings.length }) : t("agents.fine");
  }

  async function check() {
    said([], (await checkDocument(app.api, given())).warnings);
  }

  // The document as the service takes it: the object of JSON, else the text, which may be YAML.
  function given() {
    try {
      return JSON.parse(editor.text);
    } catch {
      return editor.text;
    }
  }

  async function save() {
    const own = id ?? idOf(editor.text);
    if (!own) return check();
    const stored = await putDocument(app.api, own, view.found?.agent.version ?? 0, given());
    view.shown = editor.text;
    app.toast("ok", t("agents.saved", { version: stored.agent.version }));
    onChange();
    if (!id) return onShow(own);
    await look();
    said([], stored.warnings ?? []);
    return undefined;
  }

  async function remove() {
    if (!(await app.confirm({ title: t("agents.remove_title"), text: t("agents.remove_text", { name: view.found.agent.name }), ok: t("agents.remove"), danger: true }))) return;
    await removeAgent(app.api, id);
    onChange();
    onShow(null);
  }

  // Does something; what the service finds wrong with a document is shown in it, what it refuses is said.
  async function asked(pressed, work) {
    pressed.disabled = true;
    status.textContent = "";
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (Array.isArray(error.details) && error.details.some((one) => "where" in one)) said(error.details, error.warnings);
      else app.toast("error", error.message);
    } finally {
      pressed.disabled = false;
    }
  }
}
