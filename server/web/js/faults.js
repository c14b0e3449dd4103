// Shows what the server refuses at the fields of a form, each `{where, control, error}`.

import { replace } from "./dom.js";

// Returns the field that a fault names: `patches.1.search`, or the nearest field around or within.
export function fieldOf(fields, where) {
  const named = String(where ?? "").split(".").filter((part) => part && part !== "payload" && part !== "body").join(".");
  const fits = (field) => named && (field.where === named || named.startsWith(`${field.where}.`) || field.where.startsWith(`${named}.`));
  return fields.find((field) => field.where === named) ?? fields.find(fits);
}

// Marks a field as wrong, with why; without a text it is right again.
export function mark(field, text = "") {
  replace(field.error, text);
  field.error.hidden = !text;
  if (text) field.control.setAttribute("aria-invalid", "true");
  else field.control.removeAttribute("aria-invalid");
}
