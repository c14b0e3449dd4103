// How an answer came about: what was found for the question, what the model was sent, and each call.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { costText, nameOf, numberText, timeText } from "../names.js";
import { nodeChip } from "./links.js";

// Shows the trace of a conversation, the latest answer first.
export async function showTrace(app, threadId) {
  const { t, api, path, store } = app;
  const { lang } = store.get();
  const list = h("div.trace", { "aria-busy": "true" });
  app.openDialog({ title: t("trace.title"), content: list, wide: true });
  try {
    const { turns } = await api.get(path`/api/ai/thread/${threadId}/trace`);
    replace(list, turns.length ? turns.toReversed().map(turnBox) : h("p.note", t("trace.empty")));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    replace(list, h("p.warn-text", { role: "alert" }, error.message));
  }
  list.removeAttribute("aria-busy");

  function turnBox({ turn, time, spans, context }, place) {
    const longest = Math.max(1, ...spans.filter((span) => span.operation !== "invoke_agent").map((span) => span.ms));
    return h("details", { open: place === 0 }, h("summary", `${t("blame.turn", { n: turn })} · ${timeText(time, lang)}`),
      h("ol.trace-spans", spans.map((span) => spanRow(span, longest))), contextBox(context));
  }

  function spanRow(span, longest) {
    const { attributes: facts, operation, ms } = span;
    const name = operation === "execute_tool" && t.has(`tool.name.${facts.tool}`) ? t(`tool.name.${facts.tool}`) : facts.tool ?? facts.model ?? "";
    const parts = [t("trace.ms", { n: numberText(Math.round(ms), lang) })];
    if (facts.inputTokens !== undefined) parts.push(t("trace.tokens", { read: numberText(facts.inputTokens, lang), cached: numberText(facts.cachedTokens, lang), written: numberText(facts.outputTokens, lang) }));
    if (facts.costUsd) parts.push(costText(facts.costUsd, lang));
    if (facts.cached) parts.push(t("trace.cached"));
    if (span.failed) parts.push(t("tool.failed"));
    return h("li", { class: span.failed ? "is-failed" : undefined },
      h("div.trace-line", h("strong", t(`trace.${operation}`)), h("span", name), h("span.muted", parts.join(" · "))),
      operation === "invoke_agent" ? "" : h("div.trace-bar", { style: { width: `${Math.max(1, (100 * ms) / longest)}%` } }),
      facts.arguments ? h("code", facts.arguments) : "", facts.nodes?.length ? found(facts.nodes) : "");
  }

  function found(nodes) {
    return h("table", h("tbody", nodes.map(({ key, score, reasons }) => h("tr", h("td", nodeChip(app, key)), h("td.number", numberText(score, lang)), h("td.muted", reasons.map((reason) => reason.replace(/^near:(.+)$/, (_, near) => t("trace.near", { name: nameOf(app, near) }))).join(", "))))));
  }

  function contextBox(context) {
    return h("details", h("summary", t("trace.context")), context.map(({ role, text, chars }) =>
      h("section", h("h3", `${role} · ${t("trace.chars", { n: numberText(chars, lang) })}`), h("pre", { tabindex: "0" }, text.length < chars ? `${text}…` : text))));
  }
}
