// The controls of a form over a document: each shows a value of it, and what a person writes is set there at once.
//
// A control that shows a value again as it was leaves it exactly as it was. What cannot be read (a number that is none, JSON
// with a mistake) is not set: the form says so, and is neither left nor saved before it is corrected.

import { h } from "../dom.js";
import { createField, mark } from "../faults.js";
import { icon } from "../icons.js";
import { at, isObject, put } from "./document.js";
import { faultOf } from "./places.js";

const CODE = { spellcheck: "false", autocomplete: "off" };
let count = 0;

const isWords = (value) => value === undefined || (Array.isArray(value) && value.every((one) => typeof one === "string" && one.trim() === one && one && !one.includes(",")));
const asJson = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));
const asText = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));

// Returns what makes the controls of one document. `onWrite()` is called at each edit.
export function createControls({ t, document, isReadOnly, onWrite }) {
  const fields = [];
  const wrong = new Map(); // control -> why what stands in it cannot be read

  const KINDS = {
    text: { show: asText, read: readText, make: (props) => h("input", { type: "text", ...CODE, ...props }) },
    lines: { show: asText, read: readText, make: (props) => h("textarea", { rows: 3, ...props }) },
    number: { show: asText, read: readNumber, make: (props) => h("input", { inputmode: "decimal", autocomplete: "off", ...props }) },
    words: { show: (value) => (isWords(value) ? (value ?? []).join(", ") : asJson(value)), read: readWords, make: (props) => h("input", { type: "text", ...CODE, ...props }) },
    json: { show: asJson, read: readJson, make: (props) => h("textarea.code-input", { rows: Math.min(8, Math.max(2, String(props.value).split("\n").length)), ...CODE, ...props }) },
  };

  return { field, choice, yes, button, rowsOf, anchor, fields: known, wrong, document, isReadOnly, isWritten };

  // The fields that are still there: lists are drawn again when something is added to them.
  function known() {
    return fields.filter(({ control }) => control.isConnected);
  }

  // An edit: of a field, or (null) of a list.
  function isWritten(one) {
    if (one) {
      mark(one);
      one.error.classList.remove("is-warning");
    }
    onWrite();
  }

  // A field of a kind for the value at a path: a list of names, or a function where a name may become another. `also`: further
  // paths by which the server names it. `write(value)` sets it, and returns why it cannot.
  function field(kind, path, label, { hint, also = [], props = {}, value = at(document, pathOf(path)), write } = {}) {
    const { show, read, make } = KINDS[kind === "text" && asText(value).includes("\n") ? "lines" : kind]; // one line would lose them
    const control = make({ id: `doc-${++count}`, value: show(value), readonly: isReadOnly, ...props });
    const shown = control.value; // a browser writes the ends of lines its own way
    const one = added(createField("", label, control, hint), path, also);
    control.addEventListener("input", () => {
      const got = control.value === shown ? { value } : read(control.value, value);
      const refused = got.wrong ?? (write ? write(got.value) : put(document, pathOf(path), got.value));
      if (refused) wrong.set(control, refused);
      else wrong.delete(control);
      isWritten(one);
    });
    control.addEventListener("change", () => wrong.has(control) && mark(one, wrong.get(control)));
    return one;
  }

  // One of several values, `[value, text]`; a value that is none of them stays until another is chosen.
  function choice(path, label, options, { hint, also = [], value = at(document, pathOf(path)), props = {}, onChosen } = {}) {
    const isKnown = options.some(([one]) => one === value);
    const all = isKnown ? options : [[value, asText(value)], ...options];
    const control = h("select", { id: `doc-${++count}`, disabled: isReadOnly, ...props }, all.map(([one, text], i) => h("option", { value: String(i), selected: one === value }, text)));
    const one = added(createField("", label, control, hint), path, also);
    control.addEventListener("change", () => {
      put(document, pathOf(path), all[Number(control.value)][0]);
      isWritten(one);
      onChosen?.();
    });
    return one;
  }

  // Yes or no; `usual` holds where the document says nothing.
  function yes(path, label, { hint, usual = false, value = at(document, pathOf(path)), write } = {}) {
    const control = h("input", { type: "checkbox", id: `doc-${++count}`, checked: value ?? usual, disabled: isReadOnly });
    const before = control.checked;
    const one = added(createField("", label, control, hint), path, []);
    one.element.classList.add("is-check");
    control.addEventListener("change", () => {
      const next = control.checked === before ? value : control.checked;
      if (write) write(control.checked);
      else put(document, pathOf(path), next);
      isWritten(one);
    });
    return one;
  }

  function added(one, path, also) {
    for (const each of [path, ...also]) fields.push(Object.defineProperty({ ...one }, "where", { get: () => pathOf(each).join(".") }));
    return fields[fields.length - 1 - also.length];
  }

  // Where what is wrong with a list as a whole is said: at the control that adds to it.
  function anchor(path, control) {
    control.id ||= `doc-${++count}`;
    return added(createField("", "", control), path, []);
  }

  function button(name, label, onclick, { text = "", props = {} } = {}) {
    return h("button", { type: "button", class: text ? undefined : "icon-button", disabled: isReadOnly, "aria-label": text ? undefined : label, title: text ? undefined : label, onclick, ...props }, icon(name), text);
  }

  // Rows of names and values: headers, parameters. Returns an element.
  function rowsOf(path, label, { name: nameLabel, value: valueLabel, add }) {
    const value = at(document, pathOf(path));
    if (value !== undefined && !isObject(value)) return field("json", path, label).element;
    const list = h("div.doc-rows");
    const more = button("plus", add, () => addRow(), { text: add });
    draw();
    return h("fieldset", h("legend", label), list, more);

    function draw() {
      list.replaceChildren(...Object.keys(at(document, pathOf(path)) ?? {}).map(row));
    }

    function row(name) {
      const state = { name };
      const own = () => [...pathOf(path), state.name];
      const key = field("text", own, nameLabel, { value: name, props: { class: "code-line" }, write: (to) => renameRow(state, to ?? "") });
      const text = field("text", own, valueLabel, { props: { class: "code-line" } });
      return h("div.doc-row", { dataset: { row: name } }, key.element, text.element, button("close", `${t("agents.f.remove")}: ${label}, ${name}`, () => removeRow(state)));
    }

    function renameRow(state, to) {
      if (to === state.name) return undefined;
      const members = at(document, pathOf(path));
      if (!to || Object.hasOwn(members, to)) return t(to ? "agents.f.twice" : "form.required");
      put(document, pathOf(path), Object.fromEntries(Object.entries(members).map(([one, each]) => [one === state.name ? to : one, each])));
      state.name = to;
      return undefined;
    }

    function addRow() {
      let name = "name";
      const members = at(document, pathOf(path)) ?? {};
      for (let n = 2; Object.hasOwn(members, name); n += 1) name = `name_${n}`;
      put(document, [...pathOf(path), name], "");
      list.append(row(name));
      list.lastElementChild.querySelector("input").select();
      onWrite();
    }

    function removeRow({ name }) {
      put(document, [...pathOf(path), name], undefined);
      draw();
      more.focus();
      onWrite();
    }
  }

  function readText(text, before) {
    if (text === "") return { value: undefined };
    if (before === undefined || before === null || typeof before === "string") return { value: text };
    return faultOf(text) ? { value: text } : { value: JSON.parse(text) }; // a number stays a number
  }

  function readNumber(text) {
    if (!text.trim()) return { value: undefined };
    const value = Number(text.trim().replace(",", "."));
    return Number.isFinite(value) ? { value } : { wrong: t("form.number") };
  }

  function readWords(text, before) {
    if (!isWords(before)) return readJson(text);
    const words = text.split(",").map((one) => one.trim()).filter(Boolean);
    return { value: words.length ? words : undefined };
  }

  function readJson(text) {
    if (!text.trim()) return { value: undefined };
    const fault = faultOf(text);
    return fault ? { wrong: t("agents.f.not_json", fault) } : { value: JSON.parse(text) };
  }
}

const pathOf = (path) => (typeof path === "function" ? path() : path);
