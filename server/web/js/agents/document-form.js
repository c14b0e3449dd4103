// An agent's document as a form: who it is, how it greets, its prompt, tools, calls, secrets and outcomes.
//
// What is valid is the server's to say: its faults are shown at the fields that they name. What the form does not know stays
// in the document as it is, and is edited as JSON.

import { h, replace } from "../dom.js";
import { fieldOf, mark } from "../faults.js";
import { createControls } from "./controls.js";
import { at, isInline, isObject, movedItem, put } from "./document.js";
import { PHONE_FIELDS, phoneForm } from "./phone-form.js";
import { problemText } from "./places.js";
import { createToolForm, focusMoved } from "./tool-form.js";

const CHANNELS = ["chat", "voice"];
const REQUESTS = ["on_start", "on_transfer", "on_no_action", "on_end"];
const KNOWN = new Set(["version", "$schema", "agent", "base_url", "session", "graphs", "graph_tools", "permissions", "channels", "greeting", "lifecycle", "tools", "secrets"]);
const PARTLY = { chat: ["opening"], openai: ["voice"], voice: ["engine", "speech", ...PHONE_FIELDS] }; // fields of the form that stand in a part of which it knows no other

// Returns `{element, show(problems), unread()}` over a document, which the form changes. `onWrite()` is called at each edit,
// `showText(path)` shows a part of the document as JSON. `opened` are the names of the sections that are open.
export function createDocumentForm(app, { document, isReadOnly, isNew, opened, onWrite, showText, trialOf }) {
  const { t } = app;
  const f = (name, facts) => t(`agents.f.${name}`, facts);
  const controls = createControls({ t, document, isReadOnly, onWrite });
  const { field, choice, yes, rowsOf } = controls;
  const line = { class: "code-line" };
  const elsewhere = h("ol.doc-problems", { "aria-label": t("agents.problems"), hidden: true });
  const element = h("div.doc-form.auto-form", elsewhere,
    section("identity", identity), section("greeting", greeting), section("prompt", prompt),
    section("tools", () => [createToolForm(app, controls, { opened, isInline: isInline(document), trialOf })]),
    section("phone", () => phoneForm(app, controls, { opened })), section("secrets", secrets), section("outcomes", outcomes), others());
  return { element, show, unread };

  function section(name, make) {
    return h("details.doc-section", { open: opened.has(name), dataset: { section: name }, ontoggle: (event) => event.target === event.currentTarget && opened[event.currentTarget.open ? "add" : "delete"](name) },
      h("summary", f(name)), h("div.doc-part", make()));
  }

  function identity() {
    const text = (name, props) => field("text", ["agent", name], f(name), { hint: props?.hint, props: { ...props, hint: undefined } }).element;
    return [text("name"), text("id", { ...line, readonly: isReadOnly || !isNew, hint: isNew ? f("id_hint") : "" }), field("lines", ["agent", "description"], f("description")).element,
      h("div.doc-pair", text("language", { ...line, placeholder: "en" }), text("timezone", { ...line, placeholder: "Europe/Paris" })),
      text("type", { placeholder: "general" }), channels(),
      field("text", ["base_url"], f("base_url"), { hint: f("base_url_hint"), props: { ...line, placeholder: "https://api.example.com" } }).element];
  }

  function channels() {
    const before = at(document, ["channels"]);
    if (before !== undefined && !Array.isArray(before)) return field("json", ["channels"], f("channels")).element;
    const answers = (name) => (at(document, ["channels"]) ?? CHANNELS).includes(name);
    const write = (name, isOn) => {
      const next = [...(at(document, ["channels"]) ?? CHANNELS).filter((one) => one !== name), ...(isOn ? [name] : [])];
      put(document, ["channels"], sameMembers(next, before ?? CHANNELS) ? before : next);
    };
    return h("fieldset", h("legend", f("channels")), CHANNELS.map((name) => yes(["channels"], t(`agents.channel.${name}`), { value: answers(name), write: (isOn) => write(name, isOn) }).element));
  }

  function greeting() {
    return [field("lines", ["chat", "opening"], f("opening"), { hint: f("opening_hint") }).element,
      field("lines", ["greeting", "unknown_customer"], f("unknown_customer"), { hint: f("greeting_hint"), also: [["greeting"]] }).element,
      field("lines", ["greeting", "known_customer"], f("known_customer")).element,
      field("text", ["greeting", "condition_field"], f("condition_field"), { hint: f("condition_field_hint"), props: { ...line, placeholder: "session.customer.name" } }).element,
      yes(["greeting", "interruptible"], f("interruptible"), { usual: true }).element,
      ...speaking()];
  }

  // What answers calls, and the fields of that alone.
  function speaking() {
    const own = h("div.doc-part");
    const chosen = choice(["voice", "engine"], f("engine"), [[undefined, f("engine.usual")], ["realtime", f("engine.realtime")], ["text", f("engine.text")]], { hint: f("engine_hint"), onChosen: draw });
    draw();
    return [chosen.element, own];

    function draw() {
      const speech = (kind, name, props) => field(kind, ["voice", "speech", name], f(`speech.${name}`), { hint: props.hint, also: name === "welcome" ? [["voice", "speech"]] : [], props: { ...line, ...props, hint: undefined } }).element;
      replace(own, at(document, ["voice", "engine"]) === "text"
        ? [speech("lines", "welcome", { hint: f("speech.welcome_hint") }), h("div.doc-pair", speech("text", "voice", { placeholder: "Polly.Amy-Neural" }), speech("text", "language", { placeholder: "en-GB" })),
          h("div.doc-pair", speech("text", "tts_provider", { placeholder: "ElevenLabs" }), speech("text", "transcription_provider", { placeholder: "Deepgram" })),
          speech("text", "speech_model", { placeholder: "nova-3-general" }), speech("words", "hints", { hint: f("speech.hints_hint") })]
        : [field("text", ["openai", "voice"], f("voice"), { props: { ...line, placeholder: "marin" } }).element]);
    }
  }

  function prompt() {
    const fetched = ["url", "response_mapping"].map((name) => field(name === "url" ? "text" : "json", ["session", name], f(`session_${name}`), { props: line }).element);
    return [...(isInline(document) ? [field("lines", ["session", "instructions"], f("instructions"), { hint: f("instructions_hint"), props: { rows: 8 } }).element] : [h("p.note", f("fetched")), ...fetched]),
      field("words", ["graphs"], f("graphs"), { hint: f("graphs_hint"), props: line }).element,
      choice(["graph_tools"], f("graph_tools"), [[undefined, f("graph_tools.usual")], ["all", f("graph_tools.all")], ["none", f("graph_tools.none")]]).element,
      yes(["permissions", "propose"], f("propose")).element,
      choice(["permissions", "role"], f("role"), [[undefined, f("role.usual")], ["viewer", f("role.viewer")], ["editor", f("role.editor")]]).element];
  }

  // A list of objects of which each is a row: secrets, rules of the outcome.
  function rows(path, { blank, add, fieldsOf, isOrdered, label }) {
    const value = at(document, path);
    if (value !== undefined && !(Array.isArray(value) && value.every(isObject))) return field("json", path, label).element;
    const list = h("div.doc-rows");
    const more = controls.button("plus", add, () => {
      set([...(at(document, path) ?? []), { ...blank }]);
      list.lastElementChild.querySelector("input").focus();
    }, { text: add });
    draw();
    return h("fieldset", h("legend", label), list, controls.anchor(path, more).error, more);

    function set(next) {
      put(document, path, next.length ? next : undefined);
      draw();
      controls.isWritten(null);
    }

    function draw() {
      const found = at(document, path) ?? [];
      list.replaceChildren(...found.map((one, i) => row(i, found.length)));
    }

    function row(i, n) {
      const own = (name) => [...path, i, name];
      const moved = (by, key) => controls.button("chevron", `${f(key)}: ${i + 1}`, () => {
        set(movedItem(at(document, path), i, by));
        focusMoved(list.children[i + by], by);
      }, { props: { class: by < 0 ? "icon-button doc-up" : "icon-button doc-down", disabled: isReadOnly || i + by < 0 || i + by >= n } });
      return h("div.doc-row", ...fieldsOf(own), h("div.doc-foot", ...(isOrdered ? [moved(-1, "up"), moved(1, "down")] : []), controls.button("close", `${f("remove")}: ${i + 1}`, () => {
        set(at(document, path).filter((_, place) => place !== i));
        more.focus();
      })));
    }
  }

  function secrets() {
    return [h("p.note", f("secrets_hint")), rows(["secrets"], { label: f("secrets"), blank: { name: "", hosts: [] }, add: f("add_secret"),
      fieldsOf: (own) => [field("text", own("name"), f("secret_name"), { props: { ...line, placeholder: "API_KEY" } }).element, field("words", own("hosts"), f("secret_hosts"), { props: { ...line, placeholder: "api.example.com" } }).element] })];
  }

  function outcomes() {
    const hasPriority = (at(document, ["lifecycle", "outcome_rules"]) ?? []).some?.((one) => isObject(one) && "priority" in one);
    return [h("p.note", f("outcomes_hint")), rows(["lifecycle", "outcome_rules"], { label: f("outcome_rules"), blank: { flag: null, outcome: "" }, add: f("add_outcome"), isOrdered: true,
      fieldsOf: (own) => [field("text", own("flag"), f("outcome_flag"), { props: { ...line, placeholder: f("outcome_always") } }).element, field("text", own("outcome"), f("outcome"), { props: line }).element,
        ...(hasPriority ? [field("number", own("priority"), f("outcome_priority")).element] : [])] }),
      h("details.auto-budget", { open: opened.has("requests"), ontoggle: (event) => opened[event.currentTarget.open ? "add" : "delete"]("requests") }, h("summary", f("requests")), h("div.doc-part", h("p.note", f("requests_hint")), REQUESTS.map((name) => field("json", ["lifecycle", name], f(`request.${name}`)).element)))];
  }

  // What stands in the document beside the form: a way to it in the text.
  function others() {
    const isShown = (name) => KNOWN.has(name) || (PARTLY[name] && isObject(document[name]) && Object.keys(document[name]).every((one) => PARTLY[name].includes(one)));
    const names = Object.keys(document).filter((name) => !isShown(name));
    return names.length ? h("p.note.doc-others", f("others"), " ", names.map((name) => [h("button.link", { type: "button", "aria-label": `${t("agents.view.text")}: ${name}`, onclick: () => showText(name) }, name), " "])) : "";
  }

  // Shows what the server found wrong at the fields that it names, and the rest above them. `isAsked`: goes to the first.
  function show(problems, { isAsked = true } = {}) {
    const fields = controls.fields();
    fields.filter(({ control }) => !controls.wrong.has(control)).forEach((one) => mark(one));
    const rest = [];
    const marked = new Map();
    for (const problem of [...problems].sort((one, other) => Boolean(one.isWarning) - Boolean(other.isWarning))) {
      const found = fieldOf(fields, problem.where);
      if (!found) rest.push(problem);
      else if (!marked.has(found.control)) {
        marked.set(found.control, problem);
        mark(found, problemText(t, problem));
        found.error.classList.toggle("is-warning", Boolean(problem.isWarning));
        if (problem.isWarning) found.control.removeAttribute("aria-invalid");
      } else found.error.append(`\n${problemText(t, problem)}`);
    }
    elsewhere.hidden = !rest.length;
    replace(elsewhere, rest.map((problem) => h("li", { class: problem.isWarning ? "is-warning" : undefined }, h("button.link", { type: "button", "aria-label": `${t("agents.view.text")}: ${problem.where}`, onclick: () => showText(problem.where) }, problem.where || t("agents.document")), ` ${problemText(t, problem)}`)));
    if (!isAsked || !problems.length) return;
    const first = element.querySelector("[aria-invalid=true]") ?? (rest.length ? elsewhere.querySelector("button") : element.querySelector(".field-error.is-warning:not([hidden])")?.parentElement.querySelector("input, textarea, select"));
    if (first) goTo(first);
  }

  // Goes to a control that holds what cannot be read, and returns whether there is one.
  function unread() {
    const found = controls.fields().find(({ control }) => controls.wrong.has(control));
    if (!found) return false;
    mark(found, controls.wrong.get(found.control));
    goTo(found.control);
    return true;
  }

  function goTo(control) {
    for (let around = control.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    control.focus();
    control.scrollIntoView({ block: "nearest" });
  }
}

const sameMembers = (one, other) => one.length === other.length && one.every((each) => other.includes(each));
