// The panel of what is selected: a node's name, data, code and neighbours, an edge's ends; editors change them here.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { looks, nodeName, typeName } from "./model.js";

export function createInspector(element, { app, edits, canvas }) {
  const { store, t, toast } = app;
  let shownKey = null;
  let shownDocument = null;
  let isOpen = false;
  let editing = null; // "data" | "process" while it is being written

  function draw() {
    const { selection, nodes, edges } = store.get();
    const key = selection[0];
    const found = selection.length === 1 ? (nodes.get(key) ?? edges.get(key)) : null;
    const several = selection.length > 1;
    element.hidden = !isOpen || (!found && !several);
    if (element.hidden) {
      shownKey = shownDocument = editing = null;
      return;
    }
    if (editing && key === shownKey) {
      if (found !== shownDocument) element.querySelector(".stale")?.removeAttribute("hidden");
      return; // what is being written is not taken away
    }
    editing = null;
    const top = key === shownKey ? element.querySelector(".inspector-body")?.scrollTop : 0;
    shownKey = key;
    shownDocument = found;
    if (several) drawSeveral(selection);
    else if (nodes.has(key)) drawNode(found);
    else drawEdge(found);
    const body = element.querySelector(".inspector-body");
    if (body && top) body.scrollTop = top;
  }

  function frame(heading, body) {
    replace(element,
      h("div.inspector-head", heading, h("button.icon-button", { type: "button", "aria-label": t("app.close"), title: t("app.close"), onclick: close }, icon("close"))),
      h("div.inspector-body", body));
  }

  function drawNode(node) {
    const { nodeTypes } = store.get();
    const look = looks(node, nodeTypes);
    const type = nodeTypes.get(node.type);
    const process = node.process ?? type?.process ?? "";
    const own = typeof node.process === "string";
    frame(
      [h("span.node-icon", { style: { "--hue": String(look.hue), ...(look.color ? { "--type-color": look.color } : {}) } }, look.icon ? icon(look.icon) : h("span.node-letters", look.letters)),
        h("div.inspector-title", nameField(node), h("div.muted", typeName(node, nodeTypes)))],
      [
        type?.description ? h("p.muted", type.description) : null,
        h("div.inspector-actions",
          h("button", { type: "button", onclick: () => ask(node) }, icon("chat"), t("inspector.ask")),
          h("button", { type: "button", onclick: () => copy(node._key) }, icon("copy"), t("inspector.copy_key")),
          edits.mayEdit() ? h("button.quiet-danger", { type: "button", onclick: () => canvas.removeSelected() }, icon("trash"), t("inspector.delete")) : null),
        h("section", h("h3", t("inspector.connections")), connections(node)),
        section("data", t("inspector.data"), node, node.data == null ? "" : JSON.stringify(node.data, null, 2), t("inspector.no_data")),
        section("process", own || !process ? t("inspector.process") : t("inspector.process_of_type", { type: typeName(node, nodeTypes) }), node, process, t("inspector.no_process")),
        h("dl.facts", h("dt", t("inspector.key")), h("dd", h("code", node._key)), h("dt", t("inspector.position")), h("dd", `${node.posX ?? 0}, ${node.posY ?? 0}`)),
      ]);
  }

  function nameField(node) {
    const name = nodeName(node, store.get().nodeTypes);
    if (!edits.mayEdit()) return h("h2", name);
    const input = h("input.name-input", {
      value: name, "aria-label": t("inspector.rename"), maxlength: 400, autocomplete: "off", spellcheck: "false",
      onkeydown: (event) => {
        if (event.key === "Enter") input.blur();
        else if (event.key === "Escape") input.value = name;
        if (event.key === "Escape") input.blur();
      },
      onblur: () => rename(node, input.value.trim(), name),
    });
    return input;
  }

  function rename(node, wanted, before) {
    if (!wanted || wanted === before) return;
    const isObject = node.data !== null && typeof node.data === "object" && !Array.isArray(node.data);
    const [field, value] = isObject ? [["data", "name"], wanted] : [["data"], { name: wanted }];
    edits.setField("node", node, field, value, t("edit.rename", { name: before }));
  }

  function connections(node) {
    const { edges, nodes, nodeTypes } = store.get();
    const rows = [];
    for (const edge of edges.values()) {
      const other = edge.source === node._key ? edge.target : edge.target === node._key ? edge.source : null;
      if (other === null || !nodes.has(other)) continue;
      const name = nodeName(nodes.get(other), nodeTypes);
      const isOut = edge.source === node._key;
      rows.push([isOut, h("li", h("button.link", { type: "button", onclick: () => canvas.zoomTo(other) },
        h("span.way", { "aria-hidden": "true" }, isOut ? "→" : "←"), t(isOut ? "inspector.to" : "inspector.from", { name })), edge.label ? h("span.tag", edge.label) : null)]);
    }
    rows.sort((a, b) => a[0] - b[0]);
    return rows.length ? h("ul.connections", rows.map(([, row]) => row)) : h("p.muted", t("inspector.no_connections"));
  }

  function section(field, title, node, text, none) {
    return h("section", h("div.section-head", h("h3", title),
      edits.mayEdit() ? h("button.link", { type: "button", onclick: (event) => write(field, node, text, event.currentTarget.closest("section")) }, t("inspector.edit")) : null),
      text ? h("pre.code", { tabIndex: 0, class: field }, text) : h("p.muted", none));
  }

  // Turns a section into a field to write in.
  function write(field, node, text, at) {
    editing = field;
    const area = h("textarea.code", { value: text, rows: Math.min(18, Math.max(5, text.split("\n").length + 1)), spellcheck: "false", "aria-label": t(`inspector.${field}`) });
    const problem = h("p.problem", { role: "alert", hidden: true });
    const stop = () => ((editing = null), (shownDocument = null), draw());
    const save = async () => {
      let value = area.value;
      if (field === "data") {
        try {
          value = value.trim() ? JSON.parse(value) : null;
        } catch (error) {
          problem.textContent = t("inspector.not_json", { reason: error.message });
          problem.hidden = false;
          return area.focus();
        }
      }
      const now = store.get().nodes.get(node._key);
      const what = t(field === "data" ? "edit.field" : "edit.process", { name: nodeName(node, store.get().nodeTypes) });
      if (now && !(await edits.setField("node", now, field, value, what))) return undefined;
      return stop();
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") (event.stopPropagation(), stop());
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    });
    replace(at, h("h3", t(`inspector.${field}`)), h("p.stale.muted", { hidden: true }, t("inspector.changed_meanwhile")), area, problem,
      h("div.dialog-actions", h("button", { type: "button", onclick: stop }, t("app.cancel")), h("button.primary", { type: "button", onclick: save }, t("inspector.save"))));
    area.setSelectionRange(0, 0);
    area.focus();
    area.scrollTop = 0;
  }

  function drawEdge(edge) {
    const { nodes, nodeTypes } = store.get();
    const name = (key) => (nodes.has(key) ? nodeName(nodes.get(key), nodeTypes) : key);
    const label = h("input", {
      id: "edge-label", value: edge.label ?? "", maxlength: 400, disabled: !edits.mayEdit(), autocomplete: "off",
      onkeydown: (event) => event.key === "Enter" && label.blur(),
      onblur: () => label.value !== (edge.label ?? "") && edits.setField("edge", edge, "label", label.value, t("edit.field", { name: edge.label || edge._key })),
    });
    frame(h("div.inspector-title", h("h2", t("inspector.edge"))), [
      h("ul.connections", [["inspector.from", edge.source], ["inspector.to", edge.target]].map(([text, key]) =>
        h("li", h("button.link", { type: "button", onclick: () => canvas.zoomTo(key) }, t(text, { name: name(key) }))))),
      h("label", { for: "edge-label" }, t("inspector.edge_label")), label,
      edits.mayEdit() ? h("div.inspector-actions", h("button.quiet-danger", { type: "button", onclick: () => canvas.removeSelected() }, icon("trash"), t("inspector.delete"))) : null,
      h("dl.facts", h("dt", t("inspector.key")), h("dd", h("code", edge._key))),
    ]);
  }

  function drawSeveral(keys) {
    const { nodes, nodeTypes } = store.get();
    const chosen = keys.map((key) => nodes.get(key)).filter(Boolean);
    frame(h("div.inspector-title", h("h2", t("inspector.several", { n: chosen.length }))), [
      h("ul.connections", chosen.slice(0, 100).map((node) => h("li", h("button.link", { type: "button", onclick: () => canvas.zoomTo(node._key) }, nodeName(node, nodeTypes))))),
      edits.mayEdit() ? h("div.inspector-actions", h("button.quiet-danger", { type: "button", onclick: () => canvas.removeSelected() }, icon("trash"), t("inspector.delete"))) : null,
    ]);
  }

  // Puts a question about the node into the chat's field; nothing is sent.
  function ask(node) {
    store.set({ panel: "chat" });
    dispatchEvent(new CustomEvent("nodius:compose", { detail: { text: t("inspector.ask_text", { key: node._key }) } }));
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
    editing = null;
    draw();
    if (wasOpen) canvas.focusSelected();
  }

  return { draw, open, close, get isOpen() { return !element.hidden; }, focus: () => element.focus({ preventScroll: true }) };
}
