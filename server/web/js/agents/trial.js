// A tool of an agent, tried with arguments that a person gives: the requests that it would send, or what came back.
//
// What is tried is the document as it stands in the form, stored or not.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { numberText } from "../names.js";
import { createControls } from "./controls.js";
import { argumentsOf, isObject, toolsOf } from "./document.js";
import { tryTool } from "./service.js";

const KINDS = { integer: "number", number: "number", array: "json", object: "json" };

// Returns the arguments to begin with: those of which the schema gives an example or a default. Pure.
export function firstArguments(found) {
  const given = found.map(({ name, rule }) => [name, rule?.examples?.[0] ?? rule?.default]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined && value !== null));
}

// Returns an element that tries the tool of the name that `nameOf()` gives. `read()` gives the document, or null where a field
// cannot be read; `onWrong(details)` gets what the service finds wrong in it. `kept` holds what was given to each tool.
export function createTrial(app, nameOf, { read, onWrong, kept }) {
  const { t } = app;
  const place = h("div.doc-part");
  const element = h("details.auto-budget.doc-trial", { ontoggle: () => element.open && draw() }, h("summary", t("agents.trial")), place);
  return element;

  function draw() {
    const document = read();
    const tool = document && isObject(document) && toolsOf(document).find(({ name }) => name === nameOf());
    if (!tool) {
      element.open = false;
      return;
    }
    const found = tool.declared >= 0 ? argumentsOf(document, tool.declared) : null;
    const given = kept.get(tool.name) ?? { args: firstArguments(found ?? []), ctx: {} };
    kept.set(tool.name, given);
    const shown = h("div.trial", { role: "status" });
    const controls = createControls({ t, document: given, isReadOnly: false, onWrite: () => {} });
    const acts = (tool.handler.method ?? "GET") !== "GET";
    const send = h("button", { type: "button", class: "primary", onclick: (event) => ask(event.currentTarget, false) }, t("agents.send"));
    replace(place, ...(found ? found.map((one) => fieldOf(controls, one)) : [controls.field("json", ["args"], t("agents.args")).element]), found && !found.length ? h("p.note", t("agents.f.no_arguments")) : "",
      controls.field("json", ["ctx"], t("agents.ctx_given")).element,
      h("div.card-buttons", h("button", { type: "button", onclick: (event) => ask(event.currentTarget, true) }, t("agents.try")), send), h("p.note", t(acts ? "agents.send_acts" : "agents.send_reads")), shown);

    async function ask(button, dryRun) {
      const now = read();
      const unread = controls.fields().find(({ control }) => controls.wrong.has(control));
      if (unread) unread.control.focus();
      if (unread || !now) return;
      button.disabled = true;
      replace(shown, h("p.note", t(dryRun ? "agents.trying" : "agents.sending")));
      try {
        show(await tryTool(app.api, { document: now, tool: nameOf(), args: given.args ?? {}, ctx: given.ctx ?? {}, dryRun }), dryRun);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const faults = Array.isArray(error.details) ? error.details.filter((one) => "where" in one) : [];
        replace(shown, h("p.field-error", error.message, typeof error.details?.reason === "string" ? ` ${error.details.reason}` : ""));
        if (faults.length) onWrong(faults);
      } finally {
        button.disabled = false;
      }
    }

    function show({ requests = [], ok, ms, result }, dryRun) {
      const { lang } = app.store.get();
      const end = dryRun ? [] : [
        h("p", { class: ok ? "ok-text" : "warn-text" }, t(ok ? "agents.try_ok" : "agents.try_failed"), ` · ${t("agents.ms", { n: numberText(ms, lang) })}`),
        h("div", h("h4", t("agents.model_gets")), code(t("agents.model_gets"), pretty(result)))];
      replace(shown, requests.map((one) => exchange(one, lang)), end);
    }
  }

  function fieldOf(controls, { name, rule, isRequired }) {
    const label = isRequired ? t("agents.needed", { name }) : name;
    const hint = typeof rule?.description === "string" ? rule.description : "";
    const path = ["args", name];
    if (Array.isArray(rule?.enum)) return controls.choice(path, label, [[undefined, "–"], ...rule.enum.map((one) => [one, String(one)])], { hint }).element;
    if (rule?.type === "boolean") return controls.choice(path, label, [[undefined, "–"], [true, t("agents.yes")], [false, t("agents.no")]], { hint }).element;
    return controls.field(KINDS[rule?.type] ?? "text", path, label, { hint }).element;
  }

  // One request, and what came back where it was sent.
  function exchange({ method, url, headers = {}, body, ms, status, answer, code: why }, lang) {
    const lines = [`${method} ${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join("\n");
    const text = body === undefined || body === null ? "" : `\n\n${pretty(body)}`;
    const came = ms === undefined ? [] : [h("p.doc-came", h("strong", status ? `HTTP ${status}` : t(`agents.failed.${why ?? "unreachable"}`)), ` · ${t("agents.ms", { n: numberText(ms, lang) })}`),
      ...(answer === undefined ? [] : [code(t("agents.answer"), pretty(answer))])];
    return h("div.doc-exchange", code(t("agents.request"), lines + text), came);
  }
}

const code = (label, text) => h("pre.code-shown", { tabindex: "0", "aria-label": label }, text);

// JSON with indents; a text that is no JSON, as one that was cut, as it stands.
function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value ?? null, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
