// A button "…" with the actions that are seldom needed behind it.

import { h } from "./dom.js";
import { icon } from "./icons.js";

// `items`: buttons. The menu closes when one is pressed, by Escape, and when the focus leaves it.
export function createMoreMenu(label, items) {
  const menu = h("details.more-menu", { onkeydown: closeByEscape, onclick: closeAfter, onfocusout: closeElsewhere, ontoggle: () => menu.open && menu.lastChild.scrollIntoView({ block: "nearest" }) },
    h("summary.icon-button", { "aria-label": label, title: label }, icon("more")), h("div.more-items", items));
  return menu;

  function closeByEscape(event) {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    menu.open = false;
    menu.firstChild.focus();
  }

  function closeAfter(event) {
    if (event.target.closest("button")) menu.open = false;
  }

  function closeElsewhere({ relatedTarget }) {
    if (relatedTarget && !menu.contains(relatedTarget)) menu.open = false;
  }
}
