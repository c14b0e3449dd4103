// One agent: its document with what is wrong in it, its versions, its tools tried dry, and what it owes.

import { ApiError } from "../api.js";
import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { personName, timeText } from "../names.js";
import { mayAdminister, mayAudit } from "../roles.js";
import { createDeliveries } from "./deliveries.js";
import { createDocumentView } from "./document-view.js";
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
  const place = h("div");
  const given = new Map(); // what was given to tools that were tried
  let written = null; // the document in its two views, once it is there
  const element = h("section.auto-run-view", top, place,
    isAdmin ? h("div.card-buttons", button("agents.check", check), button("agents.save", save, "primary"), status) : "", below);
  const opened = new Set(["agents.deliveries"]); // sections, also once they are drawn again
  const view = { found: null, error: null };
  const deliveries = id && mayAudit(store.get().me) ? createDeliveries(app, { agentId: id }) : null;
  const stopLang = store.on("lang", draw);
  if (!id) edit(blank);
  draw();
  if (id) look();
  return { element, look, mayLeave, destroy: stopLang, focus: () => top.querySelector("button")?.focus() };

  function edit(text) {
    if (written) return written.set(text);
    written = createDocumentView(app, { text, label: t("agents.document"), isReadOnly: !isAdmin, isNew: !id, trialOf: isAdmin ? trialOf : null });
    return place.replaceChildren(written.element);
  }

  function trialOf(nameOf) {
    return createTrial(app, nameOf, { read: () => written.read(), onWrong: (faults) => said(faults, []), kept: given });
  }

  // Whether nothing is lost by leaving, or a person agrees to that.
  async function mayLeave() {
    return !isAdmin || !written?.isChanged() || app.confirm({ title: t("agents.leave_title"), text: t("agents.leave_text"), ok: t("agents.leave"), danger: true });
  }

  // Reads the agent again; what a person has written stays.
  async function look(version) {
    try {
      const isWritten = version === undefined && written?.isChanged();
      const found = await getAgent(app.api, id, version);
      Object.assign(view, { found, error: null });
      if (!isWritten) {
        edit(JSON.stringify(found.document, null, 2));
        if (found.version === found.agent.version) written.show(found.agent.problems ?? [], { isAsked: false });
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

  // Shows another version, for which what is written is given up.
  async function showVersion(version) {
    if (await mayLeave()) await look(version);
  }

  async function rollback(version) {
    if (!(await mayLeave())) return;
    await actOnAgent(app.api, id, "rollback", { version });
    await look(version);
    onChange();
  }

  function said(errors, warnings) {
    written.show([...errors, ...warnings.map((one) => ({ ...one, isWarning: true }))]);
    status.textContent = errors.length ? t("agents.errors", { n: errors.length }) : warnings.length ? t("agents.warnings", { n: warnings.length }) : t("agents.fine");
  }

  async function check() {
    const document = written.read();
    if (document) said([], (await checkDocument(app.api, document)).warnings);
  }

  async function save() {
    const own = id ?? written.id();
    const document = written.read();
    if (!own) return check();
    if (!document) return undefined;
    const stored = await putDocument(app.api, own, view.found?.agent.version ?? 0, document);
    written.saved();
    app.toast("ok", t("agents.saved", { version: stored.agent.version }));
    onChange();
    if (!id) return onShow(own);
    await look(stored.agent.version);
    said([], stored.warnings ?? []);
    return undefined;
  }

  async function remove() {
    if (!(await app.confirm({ title: t("agents.remove_title"), text: t("agents.remove_text", { name: view.found.agent.name }), ok: t("agents.remove"), danger: true }))) return;
    await removeAgent(app.api, id);
    written.saved();
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
