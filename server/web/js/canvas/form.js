// The form of a node's data: a field for each that its type's schema names or, without a schema, that nodes of its type
// hold. Lists and objects are written as JSON beside it.

import { h } from "../dom.js";
import { createDraft } from "./drafts.js";

const MOST_FIELDS = 40;
const MOST_LOOKED_AT = 200;
const LONG = 80;

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const at = (data, path) => path.reduce((value, part) => (isObject(value) && Object.hasOwn(value, part) ? value[part] : undefined), data);
const KINDS = { string: "text", number: "number", integer: "number", boolean: "yes" };

// Returns the fields of a node's data: [{path, kind, title, about, rule}]; `alike` are nodes of its type.
export function fieldsOf(node, type, alike) {
  const declared = fromSchema(type?.dataSchema, []);
  const found = new Map();
  for (const [path, value] of [node, ...alike].slice(0, MOST_LOOKED_AT).flatMap((one) => leaves(one.data))) {
    const kind = typeof value === "string" ? (value.includes("\n") || value.length > LONG ? "lines" : "text") : KINDS[typeof value];
    const id = path.join("\n");
    if (!kind || declared.some((field) => field.path.join("\n") === id)) continue;
    const before = found.get(id);
    if (!before) found.set(id, { path, kind, rule: {} });
    else if (before.kind !== kind) before.kind = kind === "lines" || before.kind === "lines" ? "lines" : "text";
  }
  const own = at(node.data, []);
  return [...declared.map((field) => asStored(field, at(own, field.path))), ...found.values()].filter(({ path, rule }) => {
    const value = at(own, path);
    return rule.type ? value === undefined || !(isObject(value) || Array.isArray(value)) : !isObject(value) && !Array.isArray(value);
  }).slice(0, MOST_FIELDS);
}

// A field whose value is none of its kind, as an expression in place of a number, is written as the text that it is.
function asStored(field, value) {
  const isOther = typeof value === "string" && (field.kind === "number" || field.kind === "yes" || (field.kind === "choice" && !field.rule.enum.includes(value)));
  return isOther ? { ...field, kind: value.includes("\n") ? "lines" : "text", rule: {} } : field;
}

function fromSchema(schema, path) {
  if (!isObject(schema?.properties)) return [];
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries(schema.properties).filter(([name, rule]) => isObject(rule) && name !== "name").flatMap(([name, rule]) => {
    if (rule.type === "object") return path.length ? [] : fromSchema(rule, [name]);
    const kind = Array.isArray(rule.enum) ? "choice" : rule.format === "textarea" ? "lines" : KINDS[rule.type];
    return kind ? [{ path: [...path, name], kind, title: rule.title, about: rule.description, rule: { ...rule, isRequired: required.has(name) } }] : [];
  });
}

// What a node's data holds that is no object, one level deep: n8n's parameters are under one name.
function leaves(data, path = []) {
  if (!isObject(data)) return [];
  return Object.entries(data).flatMap(([name, value]) => {
    if (!path.length && name === "name") return [];
    return isObject(value) ? (path.length ? [] : leaves(value, [name])) : [[[...path, name], value]];
  });
}

// Returns {value} of a text, or {wrong}: the key of a message and its facts.
export function read({ kind, rule }, text) {
  if (rule.isRequired && !text.trim()) return { wrong: ["form.required"] };
  if (kind !== "number") {
    if (rule.maxLength !== undefined && text.length > rule.maxLength) return { wrong: ["form.longest", { n: rule.maxLength }] };
    return { value: text };
  }
  const value = Number(text.trim().replace(",", "."));
  if (!text.trim() || !Number.isFinite(value)) return { wrong: ["form.number"] };
  if (rule.type === "integer" && !Number.isInteger(value)) return { wrong: ["form.integer"] };
  if (rule.minimum !== undefined && value < rule.minimum) return { wrong: ["form.least", { n: rule.minimum }] };
  if (rule.maximum !== undefined && value > rule.maximum) return { wrong: ["form.most", { n: rule.maximum }] };
  return { value };
}

export function createForm({ app, edits }) {
  const { store, t } = app;
  let drafts = new Map(); // path -> a draft, or a control that shows what is stored
  const show = (value) => (value === undefined || value === null ? "" : String(value));

  // The parts of a node's form, as `createParts` takes them without what all parts have in common.
  function parts(node, type) {
    if (!edits.mayEdit() || (node.data != null && !isObject(node.data))) return [];
    const alike = [...store.get().nodes.values()].filter((one) => one.type === node.type && one !== node);
    const fields = fieldsOf(node, type, alike);
    for (const { path } of fields) drafts.get(path.join("\n"))?.show(at(node.data, path));
    return fields.map((field) => [`form ${field.path.join(".")}`, [field.kind, JSON.stringify(field.rule), field.title], () => row(node._key, field, at(node.data, field.path))]);
  }

  function row(key, field, stored) {
    const id = `form-${field.path.join("-")}`;
    const control = MAKE[field.kind](key, field, stored, id);
    const label = h("label", { for: id }, field.title ?? field.path.at(-1));
    return h("div.form-field", { class: field.kind }, label, control, field.about ? h("p.muted", field.about) : null);
  }

  const written = (key, field, stored, input) => {
    const draft = createDraft(input, { t, stored: show(stored), save: (text) => store_(key, field, text) });
    drafts.set(field.path.join("\n"), { ...draft, show: (value) => draft.show(show(value)) });
    return [input, draft.hint];
  };

  const MAKE = {
    text: (key, field, stored, id) => written(key, field, stored, h("input", { id, maxlength: 20_000, autocomplete: "off" })),
    number: (key, field, stored, id) => written(key, field, stored, h("input", { id, inputmode: "decimal", maxlength: 40, autocomplete: "off" })),
    lines: (key, field, stored, id) => written(key, field, stored, h("textarea", { id, rows: 4, spellcheck: "false" })),
    yes: (key, field, stored, id) => chosen(field, stored, h("input", { id, type: "checkbox" }), (input) => put(key, field.path, input.checked), (input, value) => (input.checked = value === true)),
    choice: (key, field, stored, id) => {
      const options = field.rule.enum.map((value) => h("option", { value: String(value) }, String(value)));
      const select = h("select", { id }, h("option", { value: "", hidden: true }), options);
      return chosen(field, stored, select, (input) => put(key, field.path, field.rule.enum.find((value) => String(value) === input.value)), (input, value) => (input.value = show(value)));
    },
  };

  function chosen(field, stored, input, save, fill) {
    fill(input, stored);
    let last = stored;
    input.addEventListener("change", async () => (await save(input)) || fill(input, last));
    drafts.set(field.path.join("\n"), { show: (value) => ((last = value), fill(input, value)), leave() {}, drop() {} });
    return input;
  }

  // Resolves to true, or to what is wrong.
  async function store_(key, field, text) {
    const { value, wrong } = read(field, text);
    if (wrong) return t(...wrong);
    return put(key, field.path, value);
  }

  // Sets a value in the node's data; what holds it is made where it is not there.
  function put(key, path, value) {
    const node = store.get().nodes.get(key);
    if (!node) return false;
    const there = path.findIndex((_, i) => !isObject(at(node.data, path.slice(0, i))));
    if (there < 0) return edits.setField("node", node, ["data", ...path], value);
    const made = path.slice(there).reduceRight((inner, name) => ({ [name]: inner }), value);
    return edits.setField("node", node, ["data", ...path.slice(0, there)], made);
  }

  // Something else is shown from now on.
  function left(isGone) {
    for (const draft of drafts.values()) isGone ? draft.drop() : draft.leave();
    drafts = new Map();
  }

  return { parts, left };
}
