// A dialog with a search field over a list of which one is chosen, by pointer or keys.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

// `find(text)` returns `{rows, note}`: what is listed, under the names of its groups where it has any, and a line about it. Returns the dialog.
export function openPicker({ openDialog }, { title, hint, find }) {
  const list = h("ul.palette");
  const line = h("p.muted", { role: "status" });
  const field = h("input", { type: "search", placeholder: hint, "aria-label": hint, autocomplete: "off" });
  const dialog = openDialog({ title, content: [field, line, list] });
  const draw = () => {
    const { rows, note } = find(field.value);
    line.textContent = note;
    replace(list, rows.flatMap((row, i) => [
      row.group && row.group !== rows[i - 1]?.group ? h("li.palette-group", row.group) : [],
      h("li", choice(row, dialog))].flat()));
  };
  field.addEventListener("input", draw);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("button")?.click();
    else if (event.key === "Escape") dialog.close(); // a search field would only be emptied
    else if (event.key === "ArrowDown") list.querySelector("button")?.focus();
    else return;
    event.preventDefault();
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.preventDefault();
    let next = event.target.closest("li")?.[step];
    while (next && !next.querySelector("button")) next = next[step]; // the name of a group
    (next?.querySelector("button") ?? (event.key === "ArrowUp" ? field : event.target)).focus();
  });
  draw();
  field.focus();
  return dialog;
}

function choice({ look, name, about, choose }, dialog) {
  return h("button.palette-type", { type: "button", onclick: () => (dialog.close(), choose()) },
    nodePicture(look), h("span.palette-text", h("span.palette-name", name), about ? h("span.palette-about", about) : null));
}

// The picture of a node's type, as `looks` describes it.
export function nodePicture({ icon: name, letters, hue, color }) {
  return h("span.node-icon", { style: { "--hue": String(hue), ...(color ? { "--type-color": color } : {}) } }, name ? icon(name) : h("span.node-letters", letters));
}
