// A preview as a person reads it: what is new, gone, changed and moved, fields before and after, code as a diff.

import { renderDiff } from "../diff.js";
import { h } from "../dom.js";
import { visible } from "../hidden.js";
import { icon } from "../icons.js";
import { fieldName, labelOf, nameOf, shortJson } from "../names.js";

const SIGNS = { added: "+", removed: "−", changed: "~", moved: "↔" };
const HIDDEN = new Set(["_key", "_id", "_rev", "_from", "_to", "graphKey", "workspace", "embedding", "typeVersion", "version", "handles", "createdTime", "lastUpdatedTime"]);
const LONG = 160;
const SHORT = 80; // values that stand in one line, before and after
const MAX_SHOWN = 60;
const LAYOUT = 4; // nodes that move from which on they are counted: the canvas shows where they would stand

// Returns the list of all that a preview changes; `canZoom` false where its graph is not the one shown. `title`: what
// is read above it, which need not be said again; `onCode()` shows the code in a wider place.
export function renderChanges(app, preview, { canZoom = true, title = "", onCode = null } = {}) {
  const page = { app, t: app.t, preview, canZoom, onCode, title: onlyChange(preview) ? title : "" };
  const sections = [
    ...each(preview.nodesAdded, (node) => documentSection(page, "added", node)),
    ...each(preview.nodesRemoved, (node) => documentSection(page, "removed", node)),
    ...each(preview.nodesChanged, (change) => changeSection(page, "changed", change, "node")),
    ...((preview.nodesMoved ?? []).length < LAYOUT ? each(preview.nodesMoved, (change) => movedSection(page, change)) : [() => layoutSection(page)]),
    ...each(preview.edgesAdded, (edge) => edgeSection(page, "added", edge)),
    ...each(preview.edgesRemoved, (edge) => edgeSection(page, "removed", edge)),
    ...each(preview.edgesChanged, (change) => changeSection(page, "changed", change, "edge")),
    ...each(preview.typesAdded, (type) => typeSection(page, type)),
    ...each(preview.typesChanged, (change) => changeSection(page, "changed", change, "type")),
    ...each(preview.graphChanged, (change) => changeSection(page, "changed", change, "graph")),
    ...each(preview.referencesBroken, (one) => brokenSection(page, one)),
  ];
  const shown = sections.slice(0, MAX_SHOWN).map((make) => make());
  const rest = sections.length - shown.length;
  return h("div.changes", ...shown, rest > 0 ? h("p.note", app.t("change.more", { count: rest })) : "");
}

// The one change of a preview that does nothing else, or null.
export function onlyChange(preview) {
  const [first, ...rest] = Object.entries(preview).filter(([, items]) => items?.length);
  return first && !rest.length && first[0].endsWith("Changed") && first[1].length === 1 ? first[1][0] : null;
}

// Whether a title names both values of the only field that a preview changes, as a new name does.
export function isInTitle(title, preview) {
  const fields = onlyChange(preview)?.fields ?? [];
  const isQuoted = (value) => typeof value === "string" && [`“${value}”`, `«\u00a0${value}\u00a0»`, `« ${value} »`].some((text) => title.includes(text));
  return fields.length === 1 && isQuoted(fields[0].before) && isQuoted(fields[0].after);
}

// Sections are made only when they are shown: a layout may move two thousand nodes.
const each = (items, make) => (Array.isArray(items) ? items.map((item) => () => make(item)) : []);

function section(page, sign, kind, name, ...body) {
  return h("section", { class: `change is-${sign}` },
    h("div.change-head",
      h("span.change-sign", { "aria-hidden": "true" }, SIGNS[sign]),
      h("span.change-kind", page.t(`change.${kind}.${sign}`)),
      name),
    ...body);
}

// A node's name; where it stands on the canvas, a button that shows it.
function nodeName(page, key, name) {
  if (!page.canZoom || !page.app.store.get().nodes?.has?.(key)) return h("strong.change-name", visible(name));
  const button = h("button.link-button.change-name", { type: "button", title: page.t("change.zoom") }, visible(name));
  button.addEventListener("click", () => page.app.canvas.zoomTo(key));
  return button;
}

function brokenSection(page, { key, name, path, to }) {
  return section(page, "removed", "reference", nodeName(page, key, name), h("p.note", visible(page.t("change.reference.says", { path: path.join("."), to }))));
}

function documentSection(page, sign, node) {
  const { nodeTypes } = page.app.store.get();
  const rows = Object.entries({ type: nodeTypes?.get?.(node.type)?.displayName || node.type, ...flat(node.data, "data"), process: node.process })
    .filter(([, value]) => value !== undefined && value !== null);
  return section(page, sign, "node", nodeName(page, node._key, labelOf(node, nodeTypes)), rows.length ? table(page, rows.map(([name, value]) => [name, sign === "removed" ? value : undefined, sign === "added" ? value : undefined]), sign) : "", sign === "added" && node.process ? codeButton(page) : "");
}

const codeButton = ({ t, onCode }) => (onCode ? h("button.code-open", { type: "button", onclick: onCode }, icon("Code"), t("code.open")) : "");

function typeSection(page, type) {
  const rows = Object.entries({ ...type, process: type.node?.process, node: undefined }).filter(([name, value]) => value !== undefined && !HIDDEN.has(name) && !isEmpty(value));
  return section(page, "added", "type", h("strong.change-name", visible(type.displayName || type._key)), table(page, rows.map(([name, value]) => [name, undefined, value]), "added"));
}

const isEmpty = (value) => value === null || value === "" || (Array.isArray(value) && !value.length);

function flat(data, name) {
  if (data === undefined || data === null) return {};
  if (typeof data !== "object" || Array.isArray(data)) return { [name]: data };
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [`${name}.${key}`, value]));
}

function edgeSection(page, sign, edge) {
  const end = (key) => nodeName(page, key, nameOf(page.app, key, page.preview));
  const label = edge.label ? h("span.change-label", visible(edge.label)) : "";
  return section(page, sign, "edge", h("span.change-ends", end(edge.source), h("span", { "aria-label": page.t("change.to") }, "→"), end(edge.target), label));
}

function layoutSection(page) {
  return section(page, "moved", "node", h("span.change-place", page.t("change.layout", { n: page.preview.nodesMoved.length })));
}

function movedSection(page, change) {
  const find = (field) => change.fields.find((one) => one.path[0] === field);
  const at = (x, y) => `${x ?? "·"}, ${y ?? "·"}`;
  const [x, y] = [find("posX"), find("posY")];
  const text = `${at(x?.before, y?.before)} → ${at(x?.after, y?.after)}`;
  return section(page, "moved", "node", nodeName(page, change.key, change.name), h("span.change-place", text));
}

function changeSection(page, sign, change, kind) {
  const name = kind === "node" ? nodeName(page, change.key, change.name) : h("strong.change-name", visible(change.name));
  const long = change.fields.filter((field) => field.diff);
  const rest = change.fields.filter((field) => !field.diff);
  const [short, others] = [rest.filter(isShort), rest.filter((field) => !isShort(field))];
  const body = [
    ...short.map((field) => lineOf(page, field)),
    others.length ? table(page, others.map((field) => [field.path.join("."), field.before, field.after]), "changed") : "",
    ...long.map((field) => h("div.change-code", h("div.change-code-head", h("span.change-field", { title: field.path.join(".") }, fieldName(page.t, field.path)), codeButton(page)), renderDiff(field.diff, page.t))),
  ];
  return page.title.includes(change.name) ? h("section", { class: `change is-${sign}` }, body) : section(page, sign, kind, name, ...body);
}

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");
const isShort = ({ before, after }) => [before, after].map(textOf).every((text) => text.length <= SHORT && !text.includes("\n"));

// A field in one line: `Name: Act → Act v2`.
function lineOf({ t }, { path, before, after }) {
  const value = (tag, given) => (given === undefined ? h("span.is-absent", t("change.absent")) : h(tag, given === "" ? t("change.empty") : visible(textOf(given))));
  return h("p.change-line", h("span.change-field", { title: path.join(".") }, visible(fieldName(t, path)), ":"), " ", value("del", before), h("span", { "aria-label": t("change.to"), role: "img" }, " → "), value("ins", after));
}

function table(page, rows, sign) {
  const { t } = page;
  const both = sign === "changed";
  const head = both ? h("thead", h("tr", ...["field", "before", "after"].map((name) => h("th", { scope: "col" }, t(`change.${name}`))))) : "";
  return h("table.change-table", head, h("tbody", ...rows.map(([name, before, after]) => h("tr", {},
    h("th", { scope: "row", title: name }, visible(fieldName(page.t, name))),
    both || sign === "removed" ? valueCell(page, before, "before") : "",
    both || sign === "added" ? valueCell(page, after, "after") : ""))));
}

function valueCell(page, value, side) {
  if (value === undefined) return h("td", { class: `is-${side} is-absent` }, page.t("change.absent"));
  const text = visible(typeof value === "string" ? value : JSON.stringify(value, null, 1));
  const sign = side === "before" ? "−" : "+";
  const content = text.length > LONG || text.includes("\n")
    ? h("details.change-long", h("summary", shortJson(text.replaceAll("\n", " "), 80)), h("pre", text))
    : h("span", text === "" ? page.t("change.empty") : text);
  return h("td", { class: `is-${side}` }, h("span.cell-sign", { "aria-hidden": "true" }, sign), content);
}
