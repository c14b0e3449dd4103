// Client links of an answer, `{{node:KEY}}` and the like, as chips that show what they name.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { webLink } from "../markdown.js";
import { nameOf } from "../names.js";

const MAX_KEYS = 20;

// Returns the `link` option of the Markdown renderer.
export function createLinks(app) {
  return function link(kind, body) {
    switch (kind) {
      case "node":
        return nodeChip(app, body);
      case "select":
      case "highlight":
        return groupChip(app, body, kind);
      case "sheet":
        return chip("sheets", app.store.get().graph?.sheetsList?.[body] ?? body, () => app.live.showSheet(body));
      case "graph":
        return chip("graph", graphName(app, body), () => app.live.open(body));
      case "nodeConfig":
        return h("span.chip.is-plain", app.store.get().nodeTypes?.get?.(body)?.displayName ?? body);
      case "link": {
        const [url, ...words] = body.split("|");
        return webLink(url.trim(), words.join("|").trim() || url.trim());
      }
      case "fitArea":
        return areaChip(app, body);
      default:
        return h("span.chip.is-plain", body);
    }
  };
}

function chip(name, text, run, title = "") {
  return h("button.chip", { type: "button", onclick: run, title: title || undefined }, icon(name), h("span", text));
}

// A node's chip takes its name from the graph, also when that changes later.
export function nodeChip(app, key) {
  const made = chip("fit", nameOf(app, key), () => show(app, [key]), app.t("chat.chip", { key }));
  made.dataset.node = key;
  return made;
}

// Renames the chips under an element after the graph changed.
export function renameChips(app, element) {
  for (const made of element.querySelectorAll(".chip[data-node]")) {
    const name = nameOf(app, made.dataset.node);
    const text = made.lastElementChild;
    if (text.textContent !== name) text.textContent = name;
    made.classList.toggle("is-gone", app.store.get().graphState === "ready" && !app.store.get().nodes?.has?.(made.dataset.node));
  }
}

// `runs|KEYS` and `stops|KEYS` say what becomes of the nodes.
function groupChip(app, body, kind) {
  const [, outcome, list] = /^(?:(runs|stops)\|)?(.*)$/s.exec(body);
  const keys = list.split(",").map((key) => key.trim()).filter(Boolean);
  const names = keys.slice(0, 3).map((key) => nameOf(app, key)).join(", ");
  const made = chip("fit", keys.length > 3 ? `${names} +${keys.length - 3}` : names, () => show(app, keys.slice(0, MAX_KEYS)), outcome && app.t(`sources.${outcome}`));
  if (kind === "highlight") made.dataset.highlight = keys.join(",");
  if (outcome) {
    made.dataset.outcome = outcome;
    made.classList.add(`is-${outcome}`);
  }
  return made;
}

function areaChip(app, body) {
  const [minX, minY, maxX, maxY] = body.split(",").map(Number);
  const inside = () => [...(app.store.get().nodes?.values?.() ?? [])].filter((node) => node.posX >= minX && node.posX <= maxX && node.posY >= minY && node.posY <= maxY).map((node) => node._key);
  return chip("fit", app.t("chat.area"), () => show(app, inside()));
}

function show(app, keys) {
  const known = keys.filter((key) => app.store.get().nodes?.has?.(key));
  if (!known.length) {
    app.toast("warn", app.t("chat.gone"));
    return;
  }
  if (matchMedia("(max-width: 760px)").matches) app.store.set({ panel: "canvas" });
  app.canvas.zoomTo(known[0]);
  if (known.length > 1) app.canvas.select(known);
}

function graphName(app, key) {
  return (app.store.get().graphs ?? []).find((graph) => graph.graphKey === key)?.name ?? key;
}
