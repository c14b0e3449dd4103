// A form over the fields of an action, with the action as JSON for what no form shows.
//
// What is valid is the server's to say: its faults are shown at the fields that they name.

import { h, replace } from "../dom.js";
import { fieldOf, mark } from "../faults.js";
import { fieldName, nameOf } from "../names.js";
import { firstDifference } from "./codes.js";

const FIXED = new Set(["nodeKey", "edgeKey", "sourceKey", "targetKey", "targetNodeKey", "key", "mode", "direction"]);
const CODE = new Set(["process", "search", "replace"]);
const LEFT_OUT = new Set(["positions", "nodeKeys"]);
const MAX_DEPTH = 5;
const MAX_ITEMS = 40;
const LINES_ABOVE = 3;
let forms = 0;

export class NotJson extends Error {}

// Returns a form: `element`, `read()` gives the edited action (raises NotJson), `show(faults, text)`.
export function createActionForm(app, action, preview) {
  const form = { app, t: app.t, preview, fields: [], id: `edit-${++forms}` };
  const body = h("div.edit-fields");
  const problem = h("p.field-error", { id: `${form.id}-problem`, role: "alert", hidden: true });
  const raw = h("textarea.edit-raw.code-input", { rows: "12", spellcheck: "false", "aria-label": app.t("edit.json"), "aria-describedby": problem.id });
  const rawBox = h("div", { hidden: true }, raw);
  let read = build(form, body, action);
  const toggle = h("button.link-button", { type: "button", "aria-pressed": "false" }, app.t("edit.as_json"));
  toggle.addEventListener("click", () => switchForm());

  function switchForm() {
    const toRaw = rawBox.hidden;
    try {
      if (toRaw) raw.value = JSON.stringify(read(), null, 2);
      else read = build(form, body, JSON.parse(raw.value));
    } catch {
      show([], app.t("edit.not_json"));
      return;
    }
    rawBox.hidden = !toRaw;
    body.hidden = toRaw;
    toggle.textContent = app.t(toRaw ? "edit.as_form" : "edit.as_json");
    toggle.setAttribute("aria-pressed", String(toRaw));
    show([]);
  }

  function show(faults, text = "") {
    for (const field of form.fields) mark(field);
    const isRaw = !rawBox.hidden; // the fields of the form are not seen
    const rest = isRaw ? faults : faults.filter((fault) => !placed(form, fault));
    const words = faults.length ? rest.map((fault) => refusal(form, fault)) : [text].filter(Boolean);
    replace(problem, words.map((one) => h("span.field-fault", one)));
    problem.hidden = !words.length;
    raw.setAttribute("aria-invalid", String(isRaw && words.length > 0));
    const first = isRaw ? words.length && raw : body.querySelector("[aria-invalid=true]");
    if (first) first.focus();
  }

  return {
    element: h("div.edit", problem, body, rawBox, h("div.edit-switch", toggle)),
    read: () => (rawBox.hidden ? read() : parsed(raw.value)),
    show,
    focus: () => (form.code ? openAt(form.code, preview) : (body.querySelector("input, textarea, select") ?? raw).focus()),
  };
}

// Puts the caret where the proposed code first differs from what it is now, with some lines above it in view.
function openAt(control, { nodesChanged = [], typesChanged = [] }) {
  const field = [...nodesChanged, ...typesChanged].flatMap((one) => one.fields).find((one) => one.after === control.value);
  const line = firstDifference(field?.before ?? "", control.value);
  const at = control.value.split("\n").slice(0, line).join("\n").length + (line ? 1 : 0);
  control.focus();
  control.setSelectionRange(at, at);
  control.scrollTop = Math.max(0, line - LINES_ABOVE) * parseFloat(getComputedStyle(control).lineHeight);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new NotJson(error.message);
  }
}

function build(form, body, action) {
  form.fields = [];
  form.code = null; // the first field of code
  const made = ofAction(form, action, []);
  body.replaceChildren(...made.elements);
  return made.read;
}

// Fields of an action; the server names a batch's field `actions.2.changes.data.name`.
function ofAction(form, action, where) {
  if (action?.type !== "batch") {
    const made = ofObject(form, action?.payload ?? {}, where, 0);
    return { elements: made.elements, read: () => ({ ...action, payload: made.read() }) };
  }
  const inner = action.payload.actions.map((one, index) => ofAction(form, one, [...where, "actions", String(index)]));
  return {
    elements: inner.map((made, index) => h("fieldset", h("legend", form.t("edit.part", { number: index + 1 })), ...made.elements)),
    read: () => ({ ...action, payload: { ...action.payload, actions: inner.map((made) => made.read()) } }),
  };
}

function ofObject(form, value, where, depth) {
  const parts = Object.entries(value).map(([name, item]) => [name, ofValue(form, name, item, [...where, name], depth)]);
  return {
    elements: parts.flatMap(([, made]) => made.elements),
    read: () => Object.fromEntries(parts.map(([name, made]) => [name, made.read()])),
  };
}

function ofValue(form, name, value, where, depth) {
  if (LEFT_OUT.has(name)) return { elements: [], read: () => value };
  if (FIXED.has(name)) return fixed(form, name, value);
  const isGroup = value !== null && typeof value === "object" && depth < MAX_DEPTH;
  if (isGroup && Array.isArray(value) && value.length && value.length <= MAX_ITEMS && value.every((item) => item && typeof item === "object")) {
    return group(form, name, value.map((item, index) => ofObject(form, item, [...where, String(index)], depth + 1)), (made) => made.map((one) => one.read()));
  }
  if (isGroup && !Array.isArray(value) && Object.keys(value).length && Object.keys(value).length <= MAX_ITEMS) {
    return group(form, name, [ofObject(form, value, where, depth + 1)], ([made]) => made.read());
  }
  return input(form, name, value, where);
}

function fixed(form, name, value) {
  const isNode = name.toLowerCase().endsWith("nodekey") || name === "sourceKey" || name === "targetKey";
  const text = isNode ? nameOf(form.app, value, form.preview) : String(value);
  return { elements: [h("p.edit-fixed", h("span", labelText(form, name)), h("output", text))], read: () => value };
}

function group(form, name, made, read) {
  const elements = [h("fieldset", h("legend", labelText(form, name)), ...made.flatMap((one) => one.elements))];
  return { elements, read: () => read(made) };
}

function input(form, name, value, where) {
  const id = `${form.id}-${form.fields.length}`;
  const { control, read } = controlFor(name, value, id);
  const error = h("p.field-error", { id: `${id}-error`, hidden: true });
  control.setAttribute("aria-describedby", error.id);
  form.fields.push({ where: where.join("."), control, error });
  if (name === "process") form.code ??= control;
  const isCheck = control.type === "checkbox";
  return { elements: [h("div", { class: isCheck ? "edit-field is-check" : "edit-field" }, h("label", { for: id }, labelText(form, name)), control, error)], read };
}

function controlFor(name, value, id) {
  if (typeof value === "boolean") {
    const control = h("input", { type: "checkbox", id, checked: value });
    return { control, read: () => control.checked };
  }
  if (typeof value === "number") {
    const control = h("input", { type: "number", step: "any", id, value: String(value) });
    return { control, read: () => (control.value.trim() === "" ? null : Number(control.value)) };
  }
  if (typeof value === "string") {
    const isLong = CODE.has(name) || value.includes("\n") || value.length > 70;
    const rows = String(Math.min(18, Math.max(3, value.split("\n").length + 1)));
    const control = isLong
      ? h("textarea", { id, rows, class: CODE.has(name) ? "code-input" : "", spellcheck: String(!CODE.has(name)) })
      : h("input", { type: "text", id, autocomplete: "off" });
    control.value = value;
    return { control, read: () => control.value };
  }
  const control = h("textarea", { id, rows: "3", class: "code-input", spellcheck: "false" });
  control.value = JSON.stringify(value, null, 1);
  return { control, read: () => parsed(control.value) };
}

// A field that has no name of its own in the catalogue is called as in the document.
function labelText(form, name) {
  return form.t.has(`form.${name}`) ? form.t(`form.${name}`) : fieldName(form.t, name);
}

// Shows a fault at the field it names.
function placed(form, fault) {
  const found = fieldOf(form.fields, fault.where);
  if (found) mark(found, refusal(form, { what: fault.what }));
  return Boolean(found);
}

// What is wrong with a value. The rules' own words are English: elsewhere they stand behind a sentence, as a detail.
function refusal({ app, t }, { where, what }) {
  const place = where ? `${fieldName(t, String(where).replace(/(^|\.)changes\./, "$1"))}: ` : "";
  const isEnglish = app.store.get().lang === "en";
  return isEnglish ? `${place}${what}` : [place, t("edit.refused_value"), " ", h("span", { lang: "en", class: "note" }, what)];
}
