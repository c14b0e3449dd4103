// A tool of an agent tried dry: the requests it would send for arguments that a person writes. Nothing is sent.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { mark } from "../faults.js";
import { tryTool } from "./service.js";

const BLANK = { string: "", number: 0, integer: 0, boolean: false, array: [], object: {}, null: null };

// Returns the arguments of a JSON Schema to begin from: its examples, else empty values of its types. Pure.
export function blankOf(schema) {
  if (schema?.examples?.length) return schema.examples[0];
  if (schema && "default" in schema) return schema.default;
  if (schema?.enum) return schema.enum[0];
  if (schema?.properties) return Object.fromEntries(Object.entries(schema.properties).map(([name, one]) => [name, blankOf(one)]));
  return BLANK[[schema?.type].flat()[0]] ?? "";
}

// `document`: the agent's, as it is stored.
export function createTrial(app, agentId, document) {
  const { t } = app;
  const names = Object.entries(document.tools ?? {}).filter(([, tool]) => tool.type === "http").map(([name]) => name);
  if (!names.length) return h("p.note", t("agents.no_tools"));
  const tool = h("select#try-tool", names.map((name) => h("option", { value: name }, name)));
  const [args, ctx] = ["args", "ctx"].map((name) => ({ where: name, control: h(`textarea#try-${name}.code-input`, { rows: name === "args" ? 5 : 3, spellcheck: "false", "aria-describedby": `try-${name}-error` }), error: h("p.field-error", { id: `try-${name}-error`, hidden: true }) }));
  const shown = h("div.trial", { role: "status" });
  const fill = () => {
    const declared = (document.session?.tools ?? []).find((one) => one.name === tool.value);
    args.control.value = JSON.stringify(blankOf(declared?.parameters ?? {}) || {}, null, 2);
  };
  tool.addEventListener("change", fill);
  fill();
  ctx.control.value = "{}";
  const part = (one, key) => h("div.edit-field", h("label", { for: one.control.id }, t(key)), one.control, one.error);
  return h("form.auto-form", { novalidate: true, onsubmit: (event) => (event.preventDefault(), submit()) },
    h("div.edit-field", h("label", { for: "try-tool" }, t("agents.tool")), tool), part(args, "agents.args"), part(ctx, "agents.ctx_given"),
    h("button", { type: "submit" }, t("agents.try")), shown);

  function read(one) {
    mark(one);
    try {
      return JSON.parse(one.control.value.trim() || "{}");
    } catch (error) {
      mark(one, error.message);
      one.control.focus();
      return null;
    }
  }

  async function submit() {
    const given = { args: read(args), ctx: read(ctx) };
    if (!given.args || !given.ctx) return;
    try {
      const found = await tryTool(app.api, agentId, tool.value, given);
      replace(shown, (found.requests ?? []).map(request), found.requests?.length ? "" : h("pre.code-shown", { tabindex: "0" }, JSON.stringify(found.result ?? found, null, 2)));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(shown, h("p.field-error", error.message, (Array.isArray(error.details) ? error.details : []).map((one) => h("span", ` ${one.where}: ${one.what}`))));
    }
  }

  function request({ method, url, headers = {}, body }) {
    const lines = [`${method} ${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)];
    const text = body === undefined || body === null ? "" : `\n\n${typeof body === "string" ? body : JSON.stringify(body, null, 2)}`;
    return h("pre.code-shown", { tabindex: "0", "aria-label": t("agents.request") }, lines.join("\n") + text);
  }
}
