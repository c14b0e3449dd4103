// Calls of an agent in its form: whom they are transferred to, what follows where nobody answers, and recording.

import { h } from "../dom.js";
import { at, isObject, put, renamed } from "./document.js";

const DESTINATIONS = ["voice", "destinations"];
const SUMMARIES = ["none", "spoken", "posted"];
const UNANSWERED = ["hangup", "agent", "message"];

// The fields of `voice` that this part shows; a document with others is edited as JSON, too.
export const PHONE_FIELDS = ["destinations", "fallback", "no_answer_message", "recording"];

// Returns the elements of the part. `opened` are the names of the destinations that are open.
export function phoneForm(app, controls, { opened }) {
  const { t } = app;
  const { document, field, choice, yes, button } = controls;
  const f = (name, facts) => t(`agents.f.${name}`, facts);
  const line = { class: "code-line" };
  return [destinations(),
    field("text", ["voice", "fallback"], f("phone.fallback"), { hint: f("phone.fallback_hint"), props: { ...line, placeholder: "desk" } }).element,
    field("lines", ["voice", "no_answer_message"], f("phone.no_answer_message")).element,
    h("fieldset", h("legend", f("phone.recording")), h("p.note", f("phone.recording_hint")),
      yes(["voice", "recording", "enabled"], f("phone.recording_enabled")).element,
      field("lines", ["voice", "recording", "notice"], f("phone.recording_notice")).element)];

  function destinations() {
    const value = at(document, DESTINATIONS);
    if (value !== undefined && !(isObject(value) && Object.values(value).every(isObject))) return field("json", DESTINATIONS, f("phone.destinations")).element;
    const list = h("div.doc-tools");
    const more = button("plus", f("phone.add"), add, { text: f("phone.add") });
    draw();
    return h("fieldset", h("legend", f("phone.destinations")), list, controls.anchor(DESTINATIONS, more).error, more);

    function draw() {
      list.replaceChildren(...Object.keys(at(document, DESTINATIONS) ?? {}).map(card));
    }

    function changed() {
      draw();
      controls.isWritten(null);
    }

    function add() {
      const known = at(document, DESTINATIONS) ?? {};
      let name = "desk";
      for (let n = 2; Object.hasOwn(known, name); n += 1) name = `desk_${n}`;
      put(document, [...DESTINATIONS, name], { number: "" });
      opened.add(key(name));
      changed();
      list.lastElementChild.querySelector("input").select();
    }

    function card(name) {
      const state = { name };
      const own = (...path) => () => [...DESTINATIONS, state.name, ...path];
      const title = h("strong");
      const number = h("span.doc-tool-line");
      const element = h("details.doc-destination", { open: opened.has(key(name)), dataset: { destination: name }, ontoggle: () => opened[element.open ? "add" : "delete"](key(state.name)) },
        h("summary", h("span.doc-tool-name", title, " ", number)), h("div.doc-part", ...fieldsOf(state, own),
          h("div.card-buttons", button("trash", f("phone.remove"), () => remove(state), { text: f("phone.remove") }))));
      element.addEventListener("input", say);
      say();
      return element;

      function say() {
        title.textContent = state.name;
        number.textContent = at(document, own("number")()) ?? "";
      }
    }

    function fieldsOf(state, own) {
      const options = (name, values) => [[undefined, f(`phone.${name}.usual`)], ...values.map((one) => [one, f(`phone.${name}.${one}`)])];
      return [field("text", own(), f("phone.name"), { value: state.name, props: line, write: (to) => rename(state, to ?? "") }).element,
        field("text", own("number"), f("phone.number"), { props: { ...line, placeholder: "+33123456789" } }).element,
        field("lines", own("description"), f("phone.description"), { props: { rows: 2 } }).element,
        h("div.doc-pair", field("number", own("timeout_s"), f("phone.timeout_s"), { props: { placeholder: "30" } }).element, field("number", own("attempts"), f("phone.attempts"), { props: { placeholder: "1" } }).element),
        field("text", own("fallback"), f("phone.next"), { props: line }).element,
        choice(own("on_unanswered"), f("phone.on_unanswered"), options("on_unanswered", UNANSWERED)).element,
        choice(own("summary"), f("phone.summary"), options("summary", SUMMARIES), { hint: f("phone.summary_hint") }).element];
    }

    function rename(state, to) {
      if (to === state.name) return undefined;
      const known = at(document, DESTINATIONS);
      if (!to || Object.hasOwn(known, to)) return t(to ? "agents.f.twice" : "form.required");
      put(document, DESTINATIONS, renamed(known, state.name, to));
      opened.delete(key(state.name));
      opened.add(key(to));
      state.name = to;
      return undefined;
    }

    function remove({ name }) {
      put(document, [...DESTINATIONS, name], undefined);
      changed();
      more.focus();
    }
  }
}

const key = (name) => `destination ${name}`;
