// The fields of a form, each `{where, control, error, element}`, and what the server refuses, shown at them.

import { h, replace } from "./dom.js";

// Returns a field: a control with its label, a hint, and the place where it says what is wrong. `where` is the path by which
// the server names it.
export function createField(where, label, control, hint = "") {
  const error = h("p.field-error", { id: `${control.id}-error`, hidden: true });
  control.setAttribute("aria-describedby", error.id);
  return { where, control, error, element: h("div.edit-field", h("label", { for: control.id }, label), control, error, hint ? h("p.note", hint) : "") };
}

// Returns the field that a fault names: `patches.1.search`, or the nearest field around or within.
export function fieldOf(fields, where) {
  const named = String(where ?? "").split(".").filter((part) => part && part !== "payload" && part !== "body").join(".");
  if (!named) return undefined;
  const around = fields.filter(({ where }) => where === named || named.startsWith(`${where}.`)).sort((one, other) => other.where.length - one.where.length);
  return around[0] ?? fields.find(({ where }) => where.startsWith(`${named}.`));
}

// Marks a field as wrong, with why; without a text it is right again.
export function mark(field, text = "") {
  replace(field.error, text);
  field.error.hidden = !text;
  if (text) field.control.setAttribute("aria-invalid", "true");
  else field.control.removeAttribute("aria-invalid");
}
