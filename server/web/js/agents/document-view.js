// An agent's document in two views of the same: a form, and its text as JSON. Both are kept in step.
//
// Text that is no JSON cannot be left for the form, and a field that cannot be read not for the text: nothing is lost.

import { h, replace } from "../dom.js";
import { kept } from "../kept.js";
import { createDocumentForm } from "./document-form.js";
import { isObject } from "./document.js";
import { createEditor } from "./editor.js";
import { faultOf, idOf } from "./places.js";

const VIEWS = ["form", "text"];

// Returns the view of a document that is given as text: `element`, `set(text)`, `show(problems)`, `read()` (the document as the
// service takes it; null where a field cannot be read), `id()`, `saved()`, `isChanged()`.
export function createDocumentView(app, { text, label, isReadOnly, isNew, trialOf }) {
  const { t } = app;
  const state = { document: null, given: text, view: "", form: null, problems: [], checked: null };
  const opened = new Set(["identity", "prompt", "tools"]);
  const editor = createEditor(app, { text, label, isReadOnly });
  const formPlace = h("div");
  const fault = h("p.field-error", { role: "alert", hidden: true });
  const buttons = VIEWS.map((view) => h("button", { type: "button", dataset: { view }, onclick: () => choose(view) }, t(`agents.view.${view}`)));
  const element = h("div.doc-views", h("div.segments", { role: "group", "aria-label": t("agents.views") }, buttons), fault, formPlace, editor.element);
  editor.field.addEventListener("input", () => say(""));
  if (!toForm()) toText();
  if (kept.get("agents.view") === "text") toText();
  return { element, set, show, read, id, saved, isChanged };

  function draw(view) {
    state.view = view;
    formPlace.hidden = view !== "form";
    editor.element.hidden = view !== "text";
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.view === view));
  }

  function say(words) {
    replace(fault, words);
    fault.hidden = !words;
  }

  // A person chooses a view; the other is left only where all of it can be read.
  function choose(view) {
    if (view === state.view) return;
    if (view === "text" ? toText() : toForm()) kept.put("agents.view", view);
  }

  function toForm() {
    const wrong = faultOf(editor.text);
    const document = wrong ? null : JSON.parse(editor.text);
    if (!isObject(document)) {
      if (!state.view) return false; // no view was chosen yet
      say(t(wrong ? "agents.no_json" : "agents.no_object", wrong ?? {}));
      editor.goToPlace(wrong ?? { at: 0, line: 1 });
      return false;
    }
    say("");
    if (!state.form || JSON.stringify(document) !== JSON.stringify(state.document)) make(document);
    draw("form");
    again();
    return true;
  }

  function toText() {
    if (state.form && state.view === "form" && state.form.unread()) return false;
    if (state.view === "form") keepInStep();
    draw("text");
    again();
    return true;
  }

  // Writes the text again where the form changed the document; else it stays as it was written.
  function keepInStep() {
    if (JSON.stringify(JSON.parse(editor.text)) !== JSON.stringify(state.document)) editor.set(JSON.stringify(state.document, null, 2));
  }

  function make(document) {
    state.document = document;
    state.form = createDocumentForm(app, { document, isReadOnly, isNew, opened, onWrite: () => say(""), showText, trialOf });
    replace(formPlace, state.form.element);
  }

  function showText(path) {
    if (!toText()) return;
    editor.goTo(path);
  }

  // What was found wrong is shown in the other view too, as long as the document is the one that was looked at.
  function again() {
    if (state.checked !== null && state.checked === JSON.stringify(current())) shown(state.problems, { isAsked: false });
    else shown([], { isAsked: false });
  }

  function shown(problems, how) {
    if (state.view === "form") state.form.show(problems, how);
    else editor.show(problems, how);
  }

  function show(problems, how) {
    Object.assign(state, { problems, checked: JSON.stringify(current()) });
    shown(problems, how);
  }

  function set(next) {
    state.given = next;
    state.checked = null;
    editor.set(next);
    if (state.view === "form" && !toForm()) toText();
  }

  // The document as the service takes it: the object of JSON, else the text, which may be YAML.
  function current() {
    if (state.view === "form") return state.document;
    return faultOf(editor.text) ? editor.text : JSON.parse(editor.text);
  }

  function read() {
    if (state.view === "form" && state.form.unread()) return null;
    return current();
  }

  function id() {
    const document = current();
    return isObject(document) ? String(document.agent?.id ?? "") : idOf(editor.text);
  }

  // What is there now is stored.
  function saved() {
    const now = current();
    state.given = isObject(now) ? JSON.stringify(now) : now;
  }

  function isChanged() {
    if (state.view === "form" && state.form.unread()) return true;
    return faultOf(state.given) ? editor.text !== state.given : JSON.stringify(current()) !== JSON.stringify(JSON.parse(state.given));
  }
}
