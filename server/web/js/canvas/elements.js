// The elements of the canvas, one in another. Knows no graph.

import { h, replace, svg } from "../dom.js";
import { icon } from "../icons.js";

const PEN_PX = 100; // of the text that is measured

// Builds them in `root`. `actions` are what the tools do: {find, add, undo, redo, out, hundred, in, fit, tidy}.
export function createElements(root, { t, actions }) {
  const made = {};
  const tool = (name, label, onclick, extra) => h("button.icon-button", { type: "button", class: extra, title: t(label), "aria-label": t(label), dataset: { label }, onclick }, icon(name));
  Object.assign(made, createWorld());
  made.overlay = h("div.overlay");
  made.others = h("div.overlay");
  made.far = h("canvas.far", { "aria-hidden": "true" });
  made.farNames = h("canvas.far-names", { "aria-hidden": "true", hidden: true });
  made.stage = h("div.stage", { tabIndex: 0, role: "application" }, made.grid, made.far, made.world, made.farNames, made.overlay, made.others);
  made.legend = h("div.legend.floating", { role: "status", hidden: true });
  made.outcomeLegend = h("div.outcome-legend.floating", { role: "status", hidden: true });
  made.empty = h("div.empty-sheet", { hidden: true });
  made.percent = h("button.percent", { type: "button", onclick: actions.hundred }, "100 %");
  made.minimap = h("canvas.minimap", { role: "img" });
  made.tools = h("div.canvas-tools", { role: "toolbar" },
    tool("search", "find.title", actions.find), tool("add_node", "palette.title", actions.add, "edit-only"), h("span.tool-gap"), tool("undo", "canvas.undo", actions.undo, "edit-only"), tool("redo", "canvas.redo", actions.redo, "edit-only"), h("span.tool-gap"),
    tool("minus", "canvas.zoom_out", actions.out), made.percent, tool("plus", "canvas.zoom_in", actions.in), tool("fit", "canvas.fit", actions.fit), tool("tidy", "tidy.title", actions.tidy, "edit-only"));
  made.sheets = h("div.sheets");
  made.inspector = h("section.inspector.floating.scrolls", { hidden: true, tabIndex: -1 });
  made.home = h("div.home-holder", { tabIndex: -1 });
  made.tidy = h("div.tidy-bar.floating", { role: "status", hidden: true });
  made.lost = h("div.lost.floating", { role: "alert" });
  made.look = h("div.look-only.floating", { role: "status", hidden: true });
  replace(root, made.stage, made.look, made.legend, made.outcomeLegend, made.empty, h("div.canvas-bar.floating", h("div.sheets-room", made.sheets), h("div.corner", made.minimap, made.tools)), made.tidy, made.inspector, made.lost, made.home);
  // Says all in the language that is chosen now.
  function speak() {
    for (const button of made.tools.querySelectorAll("[data-label]")) {
      button.title = t(button.dataset.label);
      button.setAttribute("aria-label", button.title);
    }
    made.minimap.setAttribute("aria-label", t("canvas.minimap"));
    made.minimap.title = t("canvas.minimap");
    made.inspector.setAttribute("aria-label", t("inspector.title"));
    replace(made.empty, icon("graph"), h("h2", t("canvas.empty")), h("p", t("canvas.empty_hint")), h("button.edit-only", { type: "button", onclick: actions.add }, icon("add_node"), t("palette.title")));
  }

  return { ...made, speak };
}

// Builds what the graph is drawn in, with the layers of a preview over it.
export function createWorld() {
  const [lines, ghostLines] = [svg("g.lines"), svg("g.ghost-lines")];
  const picture = svg("svg.curves", { "aria-hidden": "true" }, svg("defs", arrow("arrow"), arrow("arrow-moved")), lines, ghostLines);
  const [nodes, backs, labels, ghosts] = [h("div.nodes"), h("div.nodes"), h("div.labels", { "aria-hidden": "true" }), h("div.ghosts")];
  return { lines, ghostLines, nodes, backs, labels, ghosts, grid: h("div.grid"), world: h("div.world", backs, picture, labels, nodes, ghosts) };
}

function arrow(id) {
  return svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0.500 8 4 0 7.500z" }));
}

// Returns a function that gives the width of a text in the weight of names, in em.
export function measuring(element) {
  const pen = document.createElement("canvas").getContext("2d");
  return (text) => {
    pen.font = `600 ${PEN_PX}px ${getComputedStyle(element).fontFamily}`;
    return pen.measureText(text).width / PEN_PX;
  };
}
