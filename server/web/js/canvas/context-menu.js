// The menu of a node, an edge, what is selected, or a place: by the right button, a long touch, or the menu key.

import { h } from "../dom.js";

const items = [];

// Adds an item: `label` is the key of its text; `when(target)` says whether it is shown, `run(target)` does it.
// The target is {kind: "node" | "edge" | "sheet", key, selection, x, y}: a place on the canvas and what is there.
export function addItem(item) {
  const at = items.findIndex((one) => one.id === item.id);
  if (at < 0) items.push(item);
  else items[at] = item;
}

export function createContextMenu({ app, stage, view, targetAt }) {
  const { store } = app;

  // Opens the menu for what an event of the canvas is about.
  function openFor(event) {
    const isByKey = event.button !== 2 && !event.clientX && !event.clientY;
    const rect = (document.activeElement?.closest?.(".node") ?? stage).getBoundingClientRect();
    const [x, y] = isByKey || event.pointerType === "" ? [rect.left + rect.width / 2, rect.top + Math.min(rect.height / 2, 60)] : [event.clientX, event.clientY];
    open(isByKey ? document.activeElement?.closest?.(".node")?.dataset.key : targetAt(event), x, y);
  }

  function open(key, clientX, clientY) {
    const { selection, nodes, edges } = store.get();
    if (key && !selection.includes(key)) store.set({ selection: [key] });
    const place = view.toWorld(clientX, clientY);
    const kind = nodes.has(key) ? "node" : edges.has(key) ? "edge" : "sheet";
    const target = { kind, key: key ?? null, selection: store.get().selection, x: Math.round(place.x), y: Math.round(place.y) };
    const shown = items.filter((item) => item.when(target));
    if (shown.length) openMenu(app, shown, target, clientX, clientY);
  }

  return { openFor };
}

let close = null; // the menu that is open

// Shows items in a menu at a place of the page; the chosen one runs with `target`.
export function openMenu({ t }, shown, target, x, y) {
  close?.();
  const before = document.activeElement;
  const menu = h("div.context-menu", { role: "menu", "aria-label": t("menu.title") }, shown.map((item) =>
    h("button", { type: "button", role: "menuitem", tabIndex: -1, class: item.isDanger ? "quiet-danger" : undefined, dataset: { item: item.id }, onclick: () => {
      end(before);
      item.run(target);
    } }, h("span", t(item.label)), item.keys ? h("kbd", item.keys) : null)));
  const end = (focused) => {
    removeEventListener("pointerdown", outside, true);
    removeEventListener("resize", close);
    close = null;
    menu.remove();
    focused?.focus?.({ preventScroll: true });
  };
  const outside = (event) => menu.contains(event.target) || end(null);
  close = () => end(null);
  document.getElementById("canvas").append(menu);
  const { width, height } = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(4, Math.min(x, innerWidth - width - 4))}px`;
  menu.style.top = `${Math.max(4, Math.min(y, innerHeight - height - 4))}px`;
  addEventListener("pointerdown", outside, true);
  addEventListener("resize", close);
  menu.addEventListener("keydown", (event) => keyed(event, menu, () => end(before)));
  menu.firstChild.focus();
}

function keyed(event, menu, end) {
  const all = [...menu.children];
  const at = all.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  event.stopPropagation();
  if (event.key === "Escape" || event.key === "Tab") end();
  else if (next !== undefined) all.at(next % all.length).focus();
  else return;
  event.preventDefault();
}
