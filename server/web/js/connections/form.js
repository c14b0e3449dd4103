// The form that connects with a server: what runs there, its address, a key, and which workflows are read.
//
// What is valid is the server's to say: its faults are shown at the fields that they name.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { fieldOf, mark } from "../faults.js";
import { PRODUCTS } from "./facts.js";
import { addConnection } from "./service.js";

const EXAMPLES = { n8n: "https://n8n.example.com", "node-red": "http://127.0.0.1:1880" };
const PUSH_MODES = ["never", "ask", "approval"];
const INTERVALS_S = [60, 300, 3600, 0];
const LOCAL = /^https?:\/\/(localhost|127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|\[)/;

// Opens the dialog; `given` are the facts of a connection that gets another key. Resolves to the connection, or null.
export async function openConnectionForm(app, given = {}) {
  const { t } = app;
  const isNew = !given.name;
  const problem = h("p.field-error", { role: "alert", hidden: true });
  const kinds = Object.keys(PRODUCTS).map((value) => h("input", { type: "radio", name: "server-kind", id: `server-kind-${value}`, value, checked: value === (given.kind ?? "n8n"), disabled: !isNew, onchange: guide }));
  const address = field("address", t("servers.address"), h("input#server-address", { type: "url", required: true, maxlength: 2000, autocomplete: "off", spellcheck: "false", value: given.address ?? "", readonly: !isNew, oninput: guide }));
  const reach = checkField("allowPrivate", t("servers.private"), h("input#server-private", { type: "checkbox" }), t("servers.private_hint"));
  const key = field("key", t("servers.key"), h("input#server-key", { type: "password", maxlength: 4000, autocomplete: "new-password", spellcheck: "false" }));
  const workflows = field("workflows", t("servers.which"), h("textarea#server-workflows", { rows: 2, spellcheck: "false", value: (given.patterns ?? []).join("\n") }), t("servers.which_hint"));
  const name = field("name", t("servers.name"), h("input#server-name", { required: true, maxlength: 40, autocomplete: "off", spellcheck: "false", value: given.name ?? "", readonly: !isNew, oninput: () => (isNamed = true) }), t("servers.name_hint"));
  const interval = field("intervalS", t("servers.interval"), h("select#server-interval", INTERVALS_S.map((value) => h("option", { value: String(value), selected: value === (given.intervalS ?? INTERVALS_S[0]) }, value ? t("servers.every", { n: value / 60 }) : t("servers.on_request")))));
  const push = field("push", t("servers.push_mode"), h("select#server-push", { onchange: guide }, PUSH_MODES.map((value) => h("option", { value, selected: value === (given.push ?? PUSH_MODES[0]) }, t(`servers.push_mode.${value}`)))));
  const fields = [address, reach, key, workflows, name, interval, push];
  let isNamed = !isNew;
  let done = null;
  const save = h("button.primary", { type: "submit", form: "server-form" }, t("servers.connect"));
  const form = h("form#server-form.auto-form", { novalidate: true, onsubmit: (event) => (event.preventDefault(), submit()) },
    problem,
    h("fieldset", h("legend", t("servers.kind")), kinds.map((one) => h("label.auto-check", { for: one.id }, one, h("span", PRODUCTS[one.value])))),
    fields.map((one) => one.element));
  const dialog = app.openDialog({ title: t(isNew ? "servers.new_title" : "servers.new_key_title", { name: given.name }), content: form, wide: true,
    actions: [h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), save] });
  guide();
  (isNew ? address : key).control.focus();
  await dialog.closed;
  return done;

  // Says what belongs into the fields for what was chosen so far.
  function guide() {
    const kind = chosen();
    address.control.placeholder = EXAMPLES[kind];
    replace(key.hint, t(`servers.key_hint.${kind}`));
    replace(interval.hint, t(`servers.interval_hint.${kind}`));
    replace(push.hint, t(push.control.value === "never" ? "servers.reads_only" : `servers.push_hint.${kind}`));
    reach.element.hidden = !LOCAL.test(address.control.value) && reach.error.hidden && !reach.control.checked;
    if (!isNamed) name.control.value = nameOf(address.control.value, kind);
  }

  function chosen() {
    return kinds.find((one) => one.checked).value;
  }

  async function submit() {
    show([]);
    save.disabled = true;
    try {
      done = await addConnection(app.api, {
        name: name.control.value.trim(), kind: chosen(), address: address.control.value.trim(), key: key.control.value.trim() || null,
        workflows: workflows.control.value.split("\n").map((line) => line.trim()).filter(Boolean),
        allowPrivate: reach.control.checked, intervalS: Number(interval.control.value), push: push.control.value,
      });
      app.toast("ok", t("servers.connected", { name: done.name }));
      dialog.close();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      show(Array.isArray(error.details) ? error.details : [], error.message);
    } finally {
      save.disabled = false;
    }
  }

  function show(faults, text = "") {
    fields.forEach((one) => mark(one));
    const rest = faults.filter((fault) => {
      const found = fieldOf(fields, fault.where);
      if (found) mark(found, fault.what);
      return !found;
    });
    const unplaced = faults.length && !rest.length ? "" : text;
    replace(problem, unplaced);
    problem.hidden = !unplaced;
    guide();
    form.querySelector("[aria-invalid=true]")?.focus();
  }
}

function field(where, label, control, text) {
  const { error, hint } = notes(control, text);
  return { where, control, error, hint, element: h("div.edit-field", h("label", { for: control.id }, label), control, error, hint) };
}

function checkField(where, label, control, text) {
  const { error, hint } = notes(control, text);
  return { where, control, error, hint, element: h("div.edit-field", h("label.auto-check", { for: control.id }, control, h("span", label)), error, hint) };
}

// What is said of a field below it: what is wrong, and what belongs into it.
function notes(control, text) {
  const error = h("p.field-error", { id: `${control.id}-error`, hidden: true });
  const hint = h("p.note", { id: `${control.id}-hint` }, text ?? "");
  control.setAttribute("aria-describedby", `${error.id} ${hint.id}`);
  return { error, hint };
}

// A name by the first part of the host, as `nodius connect` chooses it.
function nameOf(address, kind) {
  const [, host = ""] = /^https?:\/\/([^/:]+)/.exec(address) ?? [];
  const first = /^[\d.]+$/.test(host) ? "" : host.split(".")[0].toLowerCase().replace(/[^a-z0-9_-]/g, "").slice(0, 40);
  return /^[a-z0-9]/.test(first) && first !== "localhost" ? first : kind;
}
