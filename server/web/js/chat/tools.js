// What the assistant looked up or proposed, as badges: name, state, and on demand arguments and result.

import { h, replace } from "../dom.js";
import { labelOf } from "../names.js";

const PROPOSES = /^propose_/;
const MAX_RESULT = 20_000;
const FIRST = 5;
const MARKS = { running: "", ok: "✓", failed: "✕", waiting: "◔", stopped: "–" };

// Returns a badge: `element`, `finish({result, args, isError})`, `setState(state)`.
export function createTool(app, { name, args }) {
  const { t } = app;
  const mark = h("span.tool-mark", { "aria-hidden": "true" });
  const word = h("span.tool-word");
  const target = h("span.tool-args");
  const body = h("div.tool-body");
  const element = h("details.tool", h("summary", mark, h("span.tool-name", toolName(app, name)), target, word), body);
  const tool = { element, state: "running", name, finish, setState };
  let known = args;
  tell(args);
  setState("running");
  return tool;

  function setState(state) {
    tool.state = state;
    element.className = `tool is-${state}`;
    mark.textContent = MARKS[state] ?? "";
    word.textContent = state === "ok" ? "" : t(`tool.${state}`);
  }

  function tell(given) {
    if (given === undefined || given === null || given === "") return;
    known = given;
    target.textContent = briefly(app, given);
  }

  function finish({ result, args: given, isError }) {
    tell(given);
    setState(isError ? "failed" : "ok");
    replace(body, part(t("tool.asked"), pretty(known)), part(t("tool.answer"), result));
  }

  function part(label, text) {
    if (!text) return "";
    const shown = text.length > MAX_RESULT ? `${text.slice(0, MAX_RESULT)}\n…` : text;
    const { first, more } = firstEntries(shown);
    const pre = h("pre", { tabindex: "0" }, first);
    const rest = more ? h("button.tool-more", { type: "button", onclick: () => ((pre.textContent = shown), rest.remove(), pre.focus()) }, t("tool.more", { n: more })) : "";
    return h("div.tool-part", h("p.tool-label", label), pre, rest);
  }
}

// The first lines of a long text, a heading and FIRST entries, and how many are left out.
export function firstEntries(text) {
  const lines = text.split("\n");
  const more = lines.length - FIRST - 1;
  return more > 1 ? { first: lines.slice(0, FIRST + 1).join("\n"), more } : { first: text, more: 0 };
}

export const isProposal = (name) => PROPOSES.test(name ?? "");

// A tool's name as people read it; of one that the page does not know, its own.
export function toolName(app, name) {
  if (app.t.has(`tool.name.${name}`)) return app.t(`tool.name.${name}`);
  return isProposal(name) ? app.t("tool.name.propose", { what: name.slice(8).replaceAll("_", " ") }) : String(name).replaceAll("_", " ");
}

function object(given) {
  if (typeof given !== "string") return given;
  try {
    return JSON.parse(given);
  } catch {
    return given; // shown as the model wrote it
  }
}

export function pretty(given) {
  const found = object(given);
  return found === undefined || found === null || found === "" ? "" : typeof found === "string" ? found : JSON.stringify(found, null, 2);
}

// The plain arguments in one line, with their names where there are several; nodes and types are called by theirs.
export function briefly(app, given) {
  const { nodes, nodeTypes } = app.store.get();
  const found = object(given);
  const all = typeof found === "object" && found ? Object.entries(found) : [["", found]];
  const plain = all.filter(([, value]) => ["string", "number"].includes(typeof value));
  const named = (value) => (nodes.has(value) ? labelOf(nodes.get(value), nodeTypes) : nodeTypes.get(value)?.displayName ?? value);
  const text = plain.map(([name, value]) => (plain.length > 1 ? `${name}: ` : "") + named(value)).join(", ");
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
