// Highlights on the canvas what an answer rests on, and what it says that runs and does not run.

import { h, replace } from "../dom.js";
import { boundsOf, isIn } from "./model.js";

const OUTCOMES = ["runs", "stops"];

// Classes of nodes and edges for the sources of an answer: {nodes: {lit, asked, runs, stops, dimmed}, edges: {path, runs,
// stops, dimmed}}, each a set of keys. A path and what lies behind a node leave the rest dimmed. A node that runs in one
// case and not in another is marked as neither. `nodes` and `edges` are the graph's, by key.
export function highlightsOf({ nodes: keys = [], path = [], behind = [], runs = [], stops = [] }, { nodes, edges }) {
  const known = (list, without = []) => new Set(list.filter((key) => nodes.has(key) && !without.includes(key)));
  const lit = known([...keys, ...path, ...behind, ...runs, ...stops]);
  const found = { lit, runs: known(runs, stops), stops: known(stops, runs), asked: new Set(), dimmed: new Set() };
  const lines = { path: new Set(), runs: new Set(), stops: new Set(), dimmed: new Set() };
  const isOutcome = runs.length + stops.length > 0;
  if (isOutcome) found.asked = known(keys, [...runs, ...stops]);
  if (!lit.size || (!path.length && !behind.length && !isOutcome)) return { nodes: found, edges: lines };
  found.dimmed = new Set([...nodes.keys()].filter((key) => !lit.has(key)));
  const steps = new Set(path.slice(1).flatMap((key, i) => [`${path[i]}\n${key}`, `${key}\n${path[i]}`]));
  const isOfIt = ({ source, target }) => (path.length ? steps.has(`${source}\n${target}`) : lit.has(source) && lit.has(target));
  const classOf = ({ source, target }) => (found.stops.has(source) || found.stops.has(target) ? "stops" : found.runs.has(target) ? "runs" : "path");
  for (const edge of edges.values()) lines[isOfIt(edge) ? classOf(edge) : "dimmed"].add(edge._key);
  return { nodes: found, edges: lines };
}

// `select` and `fit` are the canvas's.
export function createHighlights({ nodes, edges, far, legend, view, app, select, fit }) {
  const { store, t } = app;
  let shown = highlightsOf({}, store.get()).nodes;

  // Shows these sources until others are shown.
  function show(sources) {
    const { nodes: all, sheet } = store.get();
    const found = highlightsOf(sources, store.get());
    shown = found.nodes;
    for (const [name, keys] of Object.entries(shown)) nodes.markAll(name, keys);
    edges.markAll(found.edges);
    far.light(shown);
    drawLegend();
    const here = [...shown.lit].map((key) => all.get(key)).filter((node) => (node.sheet ?? "0") === sheet);
    if (here.length && !here.some((node) => isIn(node, view.seen()))) fit({ box: boundsOf(here) });
  }

  // Returns whether there was something to hide.
  function clear() {
    const wasShowing = shown.lit.size > 0;
    if (wasShowing) show({});
    return wasShowing;
  }

  function drawLegend() {
    const outcomes = OUTCOMES.filter((name) => shown[name].size);
    legend.hidden = !outcomes.length;
    replace(legend, outcomes.map((name) => outcome(name, [...shown[name]])),
      outcomes.length ? h("button.legend-hide", { type: "button", title: t("sources.close"), onclick: clear }, t("ghost.hide")) : null);
  }

  const outcome = (name, keys) => h("button.outcome", { type: "button", class: `is-${name}`, title: t("sources.select"), onclick: () => select(keys) },
    h("span.outcome-sign", { "aria-hidden": "true" }), h("span", t(`sources.${name}`)), h("span.outcome-count", String(keys.length)));

  return { show, clear, draw: drawLegend };
}
