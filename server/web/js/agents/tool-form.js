// The tools of an agent as cards of its form: the declaration for the model, and the request that is sent.

import { h } from "../dom.js";
import { ARGUMENT_TYPES, addArgument, addTool, argumentsOf, at, mayMove, moveArgument, moveTool, removeArgument, removeTool, renameArgument, renameTool, require, toolsOf } from "./document.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const ACTIONS = ["hangup", "transfer"];
const FIRST = { http: { type: "http", url: "" }, builtin: { type: "builtin", action: "hangup" } };

// Returns an element with a card a tool. `opened` are the names of those that are open; `onTry(name)` makes what tries one.
export function createToolForm(app, controls, { opened, isInline, trialOf }) {
  const { t } = app;
  const { document } = controls;
  const list = h("div.doc-tools");
  const f = (name, facts) => t(`agents.f.${name}`, facts);
  draw();
  return h("div.doc-part", list, h("div.card-buttons", controls.button("plus", f("add_tool"), () => add("http"), { text: f("add_tool") }), controls.button("plus", f("add_builtin"), () => add("builtin"), { text: f("add_builtin") })));

  function draw() {
    const tools = toolsOf(document);
    list.replaceChildren(...(tools.length ? tools.map(card) : [h("p.note", f("no_tools"))]));
  }

  function add(type) {
    const name = addTool(document, { ...FIRST[type] });
    opened.add(name);
    changed();
    cardOf(name).querySelector("input").select();
  }

  function cardOf(name) {
    return list.querySelector(`[data-tool="${CSS.escape(name)}"]`);
  }

  function changed() {
    draw();
    controls.isWritten(null);
  }

  function card(found) {
    const tool = { ...found }; // its name changes while it is written
    const handler = () => ["tools", tool.name];
    const of = (...path) => () => [...handler(), ...path];
    const action = () => at(document, of("action")());
    const line = h("span.doc-tool-line");
    const name = h("strong");
    const say = () => {
      name.textContent = tool.name;
      nameButtons(element, tool.name);
      line.textContent = tool.handler?.type === "http" ? `${at(document, of("method")()) ?? "GET"} ${at(document, of("url")()) ?? ""}` : tool.handler ? (ACTIONS.includes(action()) ? f(`action.${action()}`) : "") : f("no_handler");
    };
    const summary = h("summary", h("span.doc-tool-name", name, " ", line));
    const element = h("details.doc-tool", { open: opened.has(tool.name), dataset: { tool: tool.name }, ontoggle: () => opened[element.open ? "add" : "delete"](tool.name) }, summary,
      h("div.doc-part", named(), ...(tool.handler?.type === "http" ? request() : tool.handler ? builtin() : []), moves()));
    element.addEventListener("input", say);
    element.addEventListener("change", say);
    say();
    return element;

    function named() {
      const told = tool.declared >= 0 ? ["session", "tools", tool.declared, "description"] : of("description");
      return h("div.doc-part",
        controls.field("text", handler, f("tool_name"), { value: tool.name, also: tool.declared >= 0 ? [["session", "tools", tool.declared]] : [], props: { class: "code-line" }, write: rename }).element,
        controls.field("lines", told, f("tool_description"), { hint: f("tool_description_hint"), also: [of("description")] }).element);
    }

    function rename(to = "") {
      if (to === tool.name) return undefined;
      if (!to || toolsOf(document).some((one) => one.name === to)) return f(to ? "twice" : "needed");
      renameTool(document, tool, to);
      opened.delete(tool.name);
      opened.add(to);
      element.dataset.tool = tool.name = to;
      return undefined;
    }

    function builtin() {
      return [controls.choice(of("action"), f("action"), ACTIONS.map((one) => [one, f(`action.${one}`)])).element, flags()];
    }

    function flags() {
      return controls.field("words", of("on_success_flags"), f("flags"), { hint: f("flags_hint"), props: { class: "code-line" } }).element;
    }

    function request() {
      const rows = (path, key) => controls.rowsOf(of(path), f(key), { name: f("row_name"), value: f("row_value"), add: f(`add_${key}`) });
      const json = (key, ...path) => controls.field("json", of(...path), f(key), { hint: f(`${key}_hint`) }).element;
      return [
        h("div.doc-request", controls.choice(of("method"), f("method"), [[undefined, "GET"], ...METHODS.slice(at(document, of("method")()) === "GET" ? 0 : 1).map((one) => [one, one])]).element,
          controls.field("text", of("url"), f("url"), { props: { class: "code-line", placeholder: "{{base_url}}/orders/{{args.number}}" } }).element),
        tool.declared >= 0 ? argumentList(app, controls, tool) : h("p.note", f(isInline ? "not_declared" : "arguments_fetched")),
        rows("headers", "headers"), h("p.note", f("headers_hint")), rows("params", "params"), json("body", "body"),
        flags(),
        h("details.auto-budget", { open: opened.has(`${tool.name} more`), ontoggle: (event) => opened[event.currentTarget.open ? "add" : "delete"](`${tool.name} more`) }, h("summary", f("tool_more")), h("div.doc-part",
          rows("store_in_ctx", "store"), controls.field("text", of("success_if"), f("success_if"), { props: { class: "code-line", placeholder: "$.accepted == true" } }).element,
          json("on_success", "on_success", "return"), json("on_error", "on_error", "return"),
          h("div.doc-pair", controls.field("number", of("timeout_s"), f("timeout_s")).element, controls.field("number", of("retries"), f("retries")).element),
          controls.field("text", of("delayed_message"), f("delayed_message")).element,
          json("pre_steps", "pre_steps"), json("body_builder", "body_builder"))),
        trialOf ? trialOf(() => tool.name) : "",
      ];
    }

    function moves() {
      const move = (by, key) => controls.button("chevron", f(key), () => {
        moveTool(document, tool, by);
        changed();
        focusMoved(cardOf(tool.name), by);
      }, { props: { class: by < 0 ? "icon-button doc-up" : "icon-button doc-down", disabled: controls.isReadOnly || !mayMove(document, tool, by), dataset: { does: f(key) } } });
      return h("div.card-buttons.doc-moves", move(-1, "up"), move(1, "down"), h("button.quiet-danger", { type: "button", disabled: controls.isReadOnly, dataset: { does: f("remove") }, onclick: () => {
        removeTool(document, tool);
        changed();
        (list.querySelector("summary") ?? list.nextElementSibling.querySelector("button")).focus();
      } }, f("remove_tool")));
    }
  }
}

// The arguments that are declared to the model, a row each.
function argumentList(app, controls, tool) {
  const { t } = app;
  const { document } = controls;
  const { declared } = tool;
  const schema = ["session", "tools", declared, "parameters"];
  const f = (name, facts) => t(`agents.f.${name}`, facts);
  const list = h("div.doc-rows");
  if (!argumentsOf(document, declared)) return controls.field("json", schema, f("arguments"), { hint: f("arguments_json") }).element;
  const more = controls.button("plus", f("add_argument"), () => {
    const name = addArgument(document, declared);
    changed();
    rowOf(name).querySelector("input").select();
  }, { text: f("add_argument") });
  draw();
  const error = controls.anchor(schema, more);
  return h("fieldset", h("legend", f("arguments")), list, error.error, more);

  function draw() {
    const found = argumentsOf(document, declared);
    list.replaceChildren(...(found.length ? found.map((one, i) => row(one, i, found.length)) : [h("p.note", f("no_arguments"))]));
  }

  function changed() {
    draw();
    controls.isWritten(null);
  }

  function rowOf(name) {
    return list.querySelector(`[data-row="${CSS.escape(name)}"]`);
  }

  function row(found, i, n) {
    const one = { ...found };
    const rule = (...path) => () => [...schema, "properties", one.name, ...path];
    const types = [...ARGUMENT_TYPES.map((type) => [type, f(`type.${type}`)]), ...(found.rule && "type" in Object(found.rule) ? [] : [[undefined, f("type.any")]])];
    const move = (by, key) => controls.button("chevron", f(key), () => {
      moveArgument(document, declared, one.name, by);
      changed();
      focusMoved(rowOf(one.name), by);
    }, { props: { class: by < 0 ? "icon-button doc-up" : "icon-button doc-down", disabled: controls.isReadOnly || i + by < 0 || i + by >= n, dataset: { does: f(key) } } });
    const element = h("div.doc-argument", { dataset: { row: one.name } },
      h("div.doc-pair", controls.field("text", rule(), f("argument_name"), { value: one.name, props: { class: "code-line" }, write: rename }).element,
        controls.choice(rule("type"), f("argument_type"), types).element),
      controls.field("text", rule("description"), f("argument_description")).element,
      h("div.doc-foot", controls.yes(() => [...schema, "required", one.name], f("argument_required"), { value: one.isRequired, write: (isRequired) => require(document, declared, one.name, isRequired) }).element,
        h("span.grow"), move(-1, "up"), move(1, "down"), controls.button("close", f("remove"), () => {
          removeArgument(document, declared, one.name);
          changed();
          more.focus();
        }, { props: { dataset: { does: f("remove") } } })));
    nameButtons(element, one.name);
    element.addEventListener("input", () => nameButtons(element, one.name));
    return element;

    function rename(to = "") {
      if (to === one.name) return undefined;
      if (!to || argumentsOf(document, declared).some(({ name }) => name === to)) return f(to ? "twice" : "needed");
      renameArgument(document, declared, one.name, to);
      element.dataset.row = one.name = to;
      return undefined;
    }
  }
}

// Says in the buttons of a row, and not in those of its parts, what they are for.
function nameButtons(element, name) {
  const isOwn = (button) => button.closest("[data-row], [data-tool]") === element;
  for (const button of [...element.querySelectorAll("[data-does]")].filter(isOwn)) {
    const words = `${button.dataset.does}: ${name}`;
    button.setAttribute("aria-label", words);
    if (button.title) button.title = words;
  }
}

// Puts the focus on the button that moved a row, or on the other where it cannot be moved further.
export function focusMoved(element, by) {
  const [first, second] = by < 0 ? [".doc-up", ".doc-down"] : [".doc-down", ".doc-up"];
  const own = (selector) => [...element.querySelectorAll(selector)].at(-1); // those of its parts come before
  (own(first).disabled ? own(second) : own(first)).focus();
}
