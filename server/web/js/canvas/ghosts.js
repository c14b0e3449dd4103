// The preview of a proposal, drawn over the graph: what would come, go, change and move. Nothing is changed.
//
// Each kind has its own line, sign and word, so that colours are not needed to tell them apart.

import { h, replace, setStyle, svg } from "../dom.js";
import { icon } from "../icons.js";
import { fieldName, labelOf } from "../names.js";
import { boxOf, curve, endOf, shapeOf, typeName } from "./model.js";

const SIGNS = { added: "plus", removed: "minus", changed: "pencil", moved: "move" };
const KINDS = Object.keys(SIGNS);
const LAYOUT = 4; // nodes that move from which on a preview is a layout: nodes and edges as they would stand, no arrows

export function createGhosts({ layer, lines, legend, app, reveal, close }) {
  const { store, t } = app;
  let preview = null;
  let title = "";

  // Where things would be, for fitting the view: boxes of all that the preview touches on the sheet.
  function touched() {
    if (!preview) return [];
    const { nodes, sheet } = store.get();
    const keys = [...list("nodesChanged"), ...list("nodesMoved")].map((change) => change.key);
    const ends = [...list("edgesAdded"), ...list("edgesRemoved")].flatMap((edge) => [edge.source, edge.target]);
    const known = [...keys, ...ends].map((key) => nodes.get(key)).filter(Boolean);
    return [...list("nodesAdded"), ...list("nodesRemoved"), ...known, ...list("nodesMoved").map(moved).filter(Boolean)].filter((node) => (node.sheet ?? "0") === sheet);
  }

  const list = (name) => (Array.isArray(preview?.[name]) ? preview[name] : []);

  function show(next, words = "") {
    preview = next && typeof next === "object" ? next : null;
    title = words;
    draw();
  }

  function draw() {
    layer.replaceChildren();
    lines.replaceChildren();
    legend.replaceChildren();
    legend.hidden = !preview;
    layer.classList.remove("is-layout");
    if (!preview) return;
    const { nodes, edges, sheet } = store.get();
    const after = new Map(nodes);
    for (const node of list("nodesAdded")) after.set(node._key, node);
    for (const change of list("nodesMoved")) if (moved(change)) after.set(change.key, moved(change));
    const here = (node) => node && (node.sheet ?? "0") === sheet;
    for (const node of list("nodesAdded")) if (here(node)) box("added", node, true);
    for (const node of list("nodesRemoved")) if (here(node)) box("removed", nodes.get(node._key) ?? node, false);
    for (const change of list("nodesChanged")) if (here(nodes.get(change.key))) box("changed", nodes.get(change.key), false, change);
    const moving = list("nodesMoved").filter((change) => here(nodes.get(change.key)));
    const isLayout = list("nodesMoved").length >= LAYOUT;
    layer.classList.toggle("is-layout", isLayout);
    for (const change of moving) isLayout ? box("moved", moved(change), true) : move(nodes.get(change.key), moved(change));
    if (isLayout) standing(edges, after, new Set(moving.map((change) => change.key)));
    for (const edge of list("edgesAdded")) if (here(edge)) line("added", edge, after);
    for (const edge of list("edgesRemoved")) if (here(edge)) line("removed", edge, nodes);
    for (const change of list("edgesChanged")) if (here(edges.get(change.key))) line("changed", edges.get(change.key), after);
    drawLegend();
  }

  // The edges of nodes that move, as they would stand.
  function standing(edges, nodes, moving) {
    const gone = new Set(list("edgesRemoved").map((edge) => edge._key));
    for (const [key, edge] of edges) {
      const [source, target] = [nodes.get(edge.source), nodes.get(edge.target)];
      if (gone.has(key) || !source || !target || !(moving.has(edge.source) || moving.has(edge.target))) continue;
      lines.append(svg("path.ghost-line.laid", { d: curve(source, target, endOf(source, edge.sourceHandle, "out"), endOf(target, edge.targetHandle, "in")).path }));
    }
  }

  // The node as it would stand after it is moved.
  function moved(change) {
    const node = store.get().nodes.get(change.key);
    if (!node) return null;
    const next = { ...node };
    for (const { path, after } of change.fields ?? []) if (path?.length === 1) next[path[0]] = after;
    return next;
  }

  function box(kind, node, isWhole, change) {
    const { x, y, w, h: high } = boxOf(node);
    const { nodeTypes } = store.get();
    const fields = change?.fields?.map((field) => fieldName(t, field.path ?? [])).slice(0, 3).join(", ");
    const isHolder = ["note", "group"].includes(shapeOf(node, nodeTypes)); // other nodes may lie in it: they are seen
    layer.append(h("div.ghost", {
      class: isHolder ? `${kind} is-holder` : kind, dataset: { key: node._key ?? "" },
      style: { transform: `translate(${x}px, ${y}px)`, width: `${w}px`, height: `${high}px` },
    },
      layer.classList.contains("is-layout") && kind === "moved" ? null : tag(kind, fields || (isHolder && kind === "removed" && holds(node) ? t("ghost.holder_alone") : "")),
      isWhole ? h("div.ghost-body", h("div.node-name", labelOf(node, nodeTypes)), h("div.node-type", typeName(node, nodeTypes))) : null));
  }

  // Whether other nodes lie in it.
  function holds(node) {
    const { x, y, w, h: high } = boxOf(node);
    const isInside = (box) => box.x >= x && box.y >= y && box.x + box.w <= x + w && box.y + box.h <= y + high;
    const gone = new Set(list("nodesRemoved").map((one) => one._key));
    return [...store.get().nodes.values()].some((one) => !gone.has(one._key) && (one.sheet ?? "0") === (node.sheet ?? "0") && isInside(boxOf(one)));
  }

  function tag(kind, more) {
    return h("div.ghost-tag", icon(SIGNS[kind]), h("span", t(`ghost.${kind}`)), more ? h("span.ghost-more", more) : null);
  }

  function move(from, to) {
    if (!to) return;
    const a = boxOf(from);
    const b = boxOf(to);
    box("moved", to, true);
    lines.append(svg("path.ghost-line.moved", {
      d: `M${a.x + a.w / 2} ${a.y + a.h / 2}L${b.x + b.w / 2} ${b.y + b.h / 2}`, "marker-end": "url(#arrow-moved)",
    }));
  }

  function line(kind, edge, nodes) {
    const source = nodes.get(edge.source);
    const target = nodes.get(edge.target);
    if (!source || !target) return;
    const found = curve(source, target, endOf(source, edge.sourceHandle, "out"), endOf(target, edge.targetHandle, "in"));
    lines.append(svg("path.ghost-line", { class: kind, d: found.path }));
    const sign = h("div.ghost-sign", { class: kind, title: t(`ghost.${kind}`) }, icon(SIGNS[kind]), edge.label ? h("span", edge.label) : null);
    setStyle(sign, { transform: `translate(${found.middle.x}px, ${found.middle.y}px) translate(-50%, -50%)` });
    layer.append(sign);
  }

  function drawLegend() {
    const counts = KINDS.map((kind) => {
      const name = kind[0].toUpperCase() + kind.slice(1);
      return [kind, list(`nodes${name}`).length + list(`edges${name}`).length + list(`types${name}`).length];
    }).filter(([, count]) => count);
    replace(legend,
      h("button.legend-title", { type: "button", title: t("ghost.reveal"), onclick: reveal }, h("strong", t("ghost.title")), title ? h("span", title) : null),
      counts.map(([kind, count]) => h("span.ghost-count", { class: kind }, icon(SIGNS[kind]), h("span", String(count)), h("span.count-word", t(`ghost.${kind}`)))),
      elsewhere(),
      close && h("button.legend-hide", { type: "button", title: t("ghost.close"), onclick: close }, t("ghost.hide")));
  }

  // Points to other sheets that the change touches too.
  function elsewhere() {
    const { nodes, sheet, graph } = store.get();
    const found = new Map();
    const all = [...list("nodesAdded"), ...list("nodesRemoved"), ...[...list("nodesChanged"), ...list("nodesMoved")].map((change) => nodes.get(change.key))];
    for (const node of all) {
      const on = node?.sheet;
      if (on !== undefined && on !== sheet) found.set(on, (found.get(on) ?? 0) + 1);
    }
    return [...found].map(([on, n]) => h("button.link", { type: "button", onclick: () => app.live.showSheet(on) },
      t("ghost.elsewhere", { n, sheet: graph?.sheetsList?.[on] ?? on })));
  }

  // The sheet that most of the change is on.
  function mainSheet() {
    const { nodes } = store.get();
    const sheets = [...list("nodesAdded"), ...list("nodesRemoved"), ...[...list("nodesChanged"), ...list("nodesMoved")].map((c) => nodes.get(c.key)), ...list("edgesAdded"), ...list("edgesRemoved")]
      .filter(Boolean).map((one) => one.sheet ?? "0");
    return sheets.includes(store.get().sheet) ? store.get().sheet : sheets[0];
  }

  return { show, draw, touched, mainSheet, get isShown() { return preview !== null; } };
}
