// The panel of what is selected: a node's name, data, code and neighbours, an edge's ends; editors change them here.
//
// It is drawn with every change of the graph: each part is made again only when its own facts are others.

import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { aligned, WAYS } from "./align.js";
import { createAreaDraft, createDraft } from "./drafts.js";
import { createForm } from "./form.js";
import { looks, typeName } from "./model.js";
import { nodePicture } from "./picker.js";
import { labelOf } from "../names.js";
import { changesOf, clashesOf } from "./text-edit.js";

const MOST_LISTED = 100;
const LONG_LABEL = 40; // letters of an edge
const MOST_TITLE = 1000;
const LONG_NAME = 120; // it scrolls
const MOST_CHANGES = 1000; // sent one by one; more are sent as a whole

export function createInspector(element, { app, edits, canvas, connecting }) {
  const { store, t, toast } = app;
  const form = createForm({ app, edits });
  const head = h("div.inspector-head");
  const body = h("div.inspector-body");
  const drawHead = createParts(head);
  const drawBody = createParts(body);
  let shown = null; // the key that is shown
  let shownName = "";
  let isOpen = false;
  let draft = null; // of the name, or of the label
  let wasBlamed = false; // who set what stays open from node to node
  let writing = null; // {field, area}: data or code that is being written
  replace(element, head, body);

  function draw() {
    const { selection, nodes, edges } = store.get();
    const key = selection.length === 1 ? selection[0] : null;
    const found = nodes.get(key) ?? edges.get(key);
    const isSeveral = selection.length > 1;
    const isHidden = !isOpen || (!found && !isSeveral);
    const now = isHidden ? null : (key ?? "several");
    if (now !== shown) {
      left();
      shown = now;
      body.scrollTop = 0;
    }
    element.hidden = isHidden;
    if (isHidden) show([], []);
    else if (isSeveral) drawSeveral(selection);
    else if (nodes.has(key)) drawNode(found);
    else drawEdge(found);
  }

  // Something else is shown from now on: what was written is saved while there is something to save it in.
  function left() {
    const { nodes, edges } = store.get();
    const isGone = shown !== null && !nodes.has(shown) && !edges.has(shown);
    if (isGone && draft?.isTouched && store.get().graphState === "ready") toast("warn", t("inspector.gone", { name: shownName }));
    if (isGone) draft?.drop();
    else draft?.leave();
    form.left(isGone);
    draft = writing = null;
  }

  // Parts are [name, facts, make]; all are of what is shown, in one language, for one role.
  function show(heads, bodies) {
    const common = [shown, store.get().lang, edits.mayEdit()];
    const made = (parts) => parts.map(([key, facts, make]) => ({ key, facts: [...common, ...facts], make }));
    const closing = ["close", [], () => h("button.icon-button", { type: "button", "aria-label": t("app.close"), title: t("app.close"), onclick: close }, icon("close"))];
    drawHead(made([...heads, closing]));
    drawBody(made(bodies));
  }

  function drawNode(node) {
    const { nodeTypes } = store.get();
    const look = looks(node, nodeTypes);
    const type = nodeTypes.get(node.type);
    const process = textOf(node, "process");
    const isOwn = typeof node.process === "string" || !process;
    const data = textOf(node, "data");
    const name = labelOf(node, nodeTypes);
    const of = typeName(node, nodeTypes);
    const near = connected(node);
    shownName = name;
    draft?.show(name);
    show([
      ["icon", [look.hue, look.color, look.icon, look.letters], () => nodePicture(look)],
      ["title", [of, edits.mayEdit() ? "" : name], () => h("div.inspector-title", nameField(node, name), h("div.muted", of))],
    ], [
      ["does", [node.type, JSON.stringify(node.data), node.process, Boolean(store.get().past)], () => doesOf(node._key)],
      ...(type?.description ? [["about", [type.description], () => h("p.muted", type.description)]] : []),
      ["actions", [], () => h("div.inspector-actions",
        h("button", { type: "button", onclick: () => ask([node._key]) }, icon("chat"), t("inspector.ask")),
        edits.mayEdit() && connecting.hasOutput(node._key) ? [
          h("button", { type: "button", onclick: () => connecting.addAfter(node._key) }, icon("add_node"), t("connect.add_after")),
          h("button", { type: "button", onclick: () => connecting.connectFrom(node._key) }, icon("graph"), t("connect.title"))] : null,
        h("button", { type: "button", onclick: () => copy(node._key) }, icon("copy"), t("inspector.copy_key")),
        h("button", { type: "button", onclick: () => dependsOn(node._key) }, icon("search"), t("everywhere.depends")), deleteButton())],
      ["connections", [JSON.stringify(near)], () => h("section", h("h3", t("inspector.connections")), connections(near))],
      ...form.parts(node, type),
      section("data", t("inspector.data"), data, t("inspector.no_data")),
      section("process", isOwn ? t("inspector.process") : t("inspector.process_of_type", { type: of }), process, t("inspector.no_process")),
      ...(store.get().past ? [] : [["blame", [node], () => blameOf(node._key)]]),
      ["facts", [node.posX, node.posY], () => h("dl.facts", h("dt", t("inspector.key")), h("dd", h("code", node._key)), h("dt", t("inspector.position")), h("dd", `${node.posX ?? 0}, ${node.posY ?? 0}`))],
    ]);
  }

  async function dependsOn(key) {
    (await import("../everywhere/dialog.js")).openEverywhere(app, { node: { graph: store.get().graphKey, key } });
  }

  // One line of what a node does, as the server reads it for models, too; empty until it has come.
  function doesOf(key) {
    const line = h("p.node-does");
    const { past, graphKey } = store.get();
    if (!past) app.api.get(app.path`/api/graphs/${graphKey}/meaning`, { node: key }).then(({ does }) => replace(line, does ?? ""), () => {});
    return line;
  }

  function blameOf(key) {
    const list = h("div");
    const box = h("details.blame-box", { open: wasBlamed }, h("summary", t("blame.title")), list);
    const fill = async () => {
      wasBlamed = box.open;
      if (box.open) (await import("../history/blame.js")).fillBlame(app, list, key);
    };
    box.addEventListener("toggle", fill);
    return box;
  }

  function deleteButton() {
    return edits.mayEdit() ? h("button.quiet-danger", { type: "button", onclick: () => canvas.removeSelected() }, icon("trash"), t("inspector.delete")) : null;
  }

  function nameField({ _key: key }, name) {
    if (!edits.mayEdit()) return h("h2", { tabIndex: name.length > LONG_NAME ? 0 : undefined }, name);
    const input = h("input.name-input", { "aria-label": t("inspector.rename"), maxlength: 400, autocomplete: "off", spellcheck: "false" });
    draft = createDraft(input, { t, stored: name, isRequired: true, save: (wanted) => rename(store.get().nodes.get(key), wanted) });
    return [h("h2.sr-only", name), input, draft.hint];
  }

  function rename(node, wanted) {
    if (!node) return false;
    const isObject = node.data !== null && typeof node.data === "object" && !Array.isArray(node.data);
    const [field, value] = isObject ? [["data", "name"], wanted] : [["data"], { name: wanted }];
    return edits.setField("node", node, field, value);
  }

  // What a node is connected to: first where it comes from.
  function connected(node) {
    const { edges, nodes, nodeTypes } = store.get();
    const rows = [];
    for (const edge of edges.values()) {
      const isOut = edge.source === node._key;
      const other = isOut ? edge.target : edge.target === node._key ? edge.source : null;
      if (nodes.has(other)) rows.push({ other, isOut, name: labelOf(nodes.get(other), nodeTypes), label: edge.label });
    }
    return rows.sort((one, two) => one.isOut - two.isOut);
  }

  function connections(rows) {
    if (!rows.length) return h("p.muted", t("inspector.no_connections"));
    return h("ul.connections", rows.map(({ other, isOut, name, label }) => h("li",
      h("button.link", { type: "button", onclick: () => canvas.zoomTo(other) },
        h("span.way", { "aria-hidden": "true" }, isOut ? "→" : "←"), t(isOut ? "inspector.to" : "inspector.from", { name })),
      label ? labelTag(label) : null)));
  }

  // A label of an edge; of a long one the beginning, and all of it at a press.
  function labelTag(label) {
    if (label.length <= LONG_LABEL) return h("span.tag", label);
    const button = h("button.tag.is-long", { type: "button", "aria-expanded": "false", title: label.slice(0, MOST_TITLE), onclick: () => button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") === "false")) }, h("span", label));
    return button;
  }

  // Data or code of a node as the text that a person edits.
  function textOf(node, field) {
    if (field === "process") return node.process ?? store.get().nodeTypes.get(node.type)?.process ?? "";
    return node.data == null ? "" : JSON.stringify(node.data, null, 2);
  }

  // A part that shows a field, or the field to write in while it is written.
  function section(field, title, text, none) {
    const isWritten = writing?.field === field;
    if (isWritten) writing.area.show(text);
    return [field, isWritten ? [writing] : [title, text], () => (isWritten ? writing.area.element
      : h("section", h("div.section-head", h("h3", title),
        edits.mayEdit() ? h("button.link", { type: "button", onclick: () => write(field, text) }, t("inspector.edit")) : null),
      text ? h("pre.code", { tabIndex: 0, class: field }, text) : h("p.muted", none)))];
  }

  function write(field, text) {
    const key = shown;
    const onEnd = () => {
      writing = null;
      draw();
      element.focus({ preventScroll: true });
    };
    writing = { field, area: createAreaDraft({ t, stored: text, label: t(`inspector.${field}`), save: (wanted, known) => storeField(key, field, wanted, known), onEnd }) };
    draw();
    writing.area.focus();
  }

  // Stores data or code; see `createAreaDraft` for `known` and what it resolves to.
  async function storeField(key, field, text, { base, seen }) {
    const node = store.get().nodes.get(key);
    if (!node) return undefined;
    const now = textOf(node, field);
    let changes;
    let theirs;
    try {
      const valueOf = (one) => (field !== "data" ? one : one.trim() ? JSON.parse(one) : null);
      changes = changesOf(valueOf(base), valueOf(text), [field]);
      theirs = changesOf(valueOf(base), valueOf(now), [field]);
    } catch (error) {
      return t("inspector.not_json", { reason: error.message });
    }
    if (changes.length > MOST_CHANGES) changes = [{ path: [field], value: JSON.parse(text) }];
    if (seen !== now && clashesOf(changes, theirs).length) return { theirs: now };
    return !changes.length || (await edits.setFields("node", node, changes)) ? undefined : t("inspector.not_saved");
  }

  function drawEdge(edge) {
    const { nodes, nodeTypes } = store.get();
    const ends = [["inspector.from", edge.source], ["inspector.to", edge.target]].map(([text, key]) =>
      ({ text, key, name: nodes.has(key) ? labelOf(nodes.get(key), nodeTypes) : key }));
    shownName = edge.label || ends.map((end) => end.name).join(" → ");
    draft?.show(edge.label ?? "");
    show([["title", [], () => h("div.inspector-title", h("h2", t("inspector.edge")))]], [
      ["ends", [JSON.stringify(ends)], () => h("ul.connections", ends.map(({ text, key, name }) => h("li", h("button.link", { type: "button", onclick: () => canvas.zoomTo(key) }, t(text, { name })))))],
      ["label", [], () => h("section", labelField(edge))],
      ["actions", [], () => h("div.inspector-actions", deleteButton())],
      ["facts", [], () => h("dl.facts", h("dt", t("inspector.key")), h("dd", h("code", edge._key)))],
    ]);
  }

  function labelField({ _key: key, label }) {
    const input = h("input", { id: "edge-label", maxlength: 400, disabled: !edits.mayEdit(), autocomplete: "off" });
    const save = (wanted) => {
      const edge = store.get().edges.get(key);
      return edge ? edits.setField("edge", edge, "label", wanted) : false;
    };
    draft = createDraft(input, { t, stored: label ?? "", save });
    return [h("label", { for: "edge-label" }, t("inspector.edge_label")), input, draft.hint];
  }

  function drawSeveral(keys) {
    const { nodes, nodeTypes } = store.get();
    const chosen = keys.filter((key) => nodes.has(key)).map((key) => ({ key, name: labelOf(nodes.get(key), nodeTypes) }));
    show([["title", [chosen.length], () => h("div.inspector-title", h("h2", t("inspector.several", { n: chosen.length })))]], [
      ["chosen", [JSON.stringify(chosen)], () => h("ul.connections", chosen.slice(0, MOST_LISTED).map(({ key, name }) => h("li", h("button.link", { type: "button", onclick: () => canvas.zoomTo(key) }, name))))],
      ["actions", [chosen.length], () => h("div.inspector-actions",
        chosen.length ? h("button", { type: "button", onclick: () => ask(store.get().selection) }, icon("chat"), t("inspector.ask_several")) : null, deleteButton())],
      ...(edits.mayEdit() && chosen.length > 1 ? [["align", [], () => h("section", h("h3", t("align.title")), h("div.align", WAYS.map((way) =>
        h("button", { type: "button", dataset: { way }, onclick: () => align(way) }, t(`align.${way}`)))))]] : []),
    ]);
  }

  function align(way) {
    const { selection, nodes } = store.get();
    const chosen = selection.filter((key) => nodes.has(key)).map((key) => nodes.get(key));
    if (chosen.length > 1) edits.move(aligned(chosen, way));
  }

  // Puts nodes into the message of the chat, and a question about them.
  function ask(keys) {
    store.set({ panel: "chat" });
    app.chat?.askAbout(keys.filter((key) => store.get().nodes.has(key)));
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      toast("ok", t("inspector.copied"));
    } catch {
      toast("warn", t("inspector.not_copied"));
    }
  }

  function open() {
    isOpen = true;
    draw();
  }

  function close() {
    const wasOpen = isOpen;
    isOpen = false;
    draw();
    if (wasOpen) canvas.focusSelected();
  }

  return { draw, open, close, ask, get isOpen() { return !element.hidden; }, focus: () => element.focus({ preventScroll: true }) };
}
