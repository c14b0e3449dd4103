// What is stored of one step of an answer: its texts, numbers and nodes.

import { createLinks, nodeChip } from "../chat/links.js";
import { pretty } from "../chat/tools.js";
import { h } from "../dom.js";
import { createMarkdown } from "../markdown.js";
import { costText, nameOf, numberText } from "../names.js";
import { stateOf } from "../review/approvals.js";
import { reasonText, titleOf, tookText } from "./words.js";

// Returns the elements that show a step.
export function detailOf(app, step, { onReview }) {
  const { t, store } = app;
  const { lang, approvals } = store.get();
  const { kind, facts } = step;
  const number = (n) => numberText(n, lang);
  return [h("h3", titleOf(app, step)), factList(t, numbers()), ...content()];

  function numbers() {
    const isModel = ["model", "second_look"].includes(kind);
    return [
      ...(step.ms === null ? [] : [["trace.took", tookText(app, step.ms)], ["trace.began", tookText(app, step.at)]]),
      ...(isModel ? [["trace.model", `${facts.provider} ${facts.model}`], ["trace.tokens_read", number(facts.inputTokens)], ["trace.tokens_cached", number(facts.cachedTokens)], ["trace.tokens_written", number(facts.outputTokens)],
        ["usage.cost", facts.costUsd === undefined ? t("usage.cost_unknown") : costText(facts.costUsd, lang)]] : []),
      ...(isModel && facts.messages ? [["trace.sent", t("trace.messages", { n: facts.messages })], ["trace.tools", number(facts.tools)]] : []),
      ...(kind === "search" ? [["trace.mode", t(`trace.mode.${facts.mode}`)]] : []),
      ...(kind === "tool" ? [["trace.tool", facts.tool], ["trace.result_size", t("trace.chars", { n: number(facts.resultChars) })]] : []),
    ];
  }

  function content() {
    switch (kind) {
      case "question":
        return [textBox(facts.text)];
      case "answer":
        return [answerBox(), cutNote(facts.text, facts.chars)];
      case "search":
        return [...(facts.notes ?? []).map((note) => h("p.note", noteText(note))), nodeTable(facts.nodes ?? [])];
      case "chosen":
        return [nodeTable(facts.nodes)];
      case "by":
        return [h("p.note", t("trace.by_hint")), hitTable(facts)];
      case "saw":
        return [h("p.note", t(facts.isRules ? "trace.saw_rules_hint" : "trace.saw_hint")), ...facts.context.map((message, i) => contextBox(message, i))];
      case "rules":
        return [h("p.note", t("trace.rules_hint"))];
      case "tool":
        return [h("h4", t("trace.arguments")), textBox(pretty(facts.arguments)), ...(facts.result ? [h("h4", t("trace.result")), textBox(facts.result, facts.resultChars)] : [])];
      case "proposal":
        return proposal();
      case "wait":
        return [h("p.note", t("trace.wait_hint"))];
      default:
        return [];
    }
  }

  function proposal() {
    const approval = approvals.get(facts.approvalId);
    return [
      approval ? h("p", approval.title, " · ", t(`state.${stateOf(approval)}`)) : h("p.note", t("trace.proposal_gone")),
      approval?.reason ? h("p.note", approval.reason) : "",
      approval ? h("button", { type: "button", onclick: () => onReview(approval) }, t("trace.to_review")) : "",
    ];
  }

  function noteText(note) {
    const code = note.split(":")[0];
    return t.has(`trace.note.${code}`) ? t(`trace.note.${code}`) : note;
  }

  function contextBox({ role, text, chars }, i) {
    return h("details", { open: i > 0 && role === "user" }, h("summary", `${t.has(`trace.role.${role}`) ? t(`trace.role.${role}`) : role} · ${t("trace.chars", { n: number(chars) })}`), textBox(text, chars));
  }

  function textBox(text, chars = text.length) {
    return [h("pre", { tabindex: "0", role: "group", "aria-label": titleOf(app, step) }, text), cutNote(text, chars)];
  }

  function cutNote(text, chars) {
    return text.length < chars ? h("p.note", t("trace.cut", { n: number(text.length), all: number(chars) })) : "";
  }

  function answerBox() {
    const box = h("div.md");
    createMarkdown(box, { link: createLinks(app), copyLabel: t("chat.copy"), copy: (text) => navigator.clipboard.writeText(text).catch(() => app.toast("warn", t("chat.not_copied"))) }).update(facts.text);
    return box;
  }

  function nodeTable(nodes) {
    return table(["trace.node", "trace.score", "trace.why"], nodes.map(({ key, score, reasons }) => [chip(key), number(score), reasons.map((reason) => reasonText(app, reason)).join(", ")]));
  }

  function hitTable({ hits, best }) {
    return [table(["trace.node", "trace.score"], best.map(([key, score]) => [chip(key), number(score)])), best.length < hits ? h("p.note", t("trace.more_hits", { n: hits - best.length })) : ""];
  }

  function chip(key) {
    return store.get().nodes?.has?.(key) ? nodeChip(app, key) : nameOf(app, key);
  }

  function table(heads, lines) {
    if (!lines.length) return h("p.note", t("trace.nothing"));
    return h("table", h("thead", h("tr", heads.map((head, i) => h("th", { scope: "col", class: i === 1 ? "number" : undefined }, t(head))))),
      h("tbody", lines.map((cells) => h("tr", cells.map((cell, i) => h("td", { class: i === 1 ? "number" : undefined }, cell))))));
  }
}

// What is shown of a whole answer: its sums.
export function turnDetail(app, { title, question, time, ms, waited, sums }) {
  const { t, store } = app;
  const { lang } = store.get();
  const number = (n) => numberText(n, lang);
  const pairs = [["trace.when", time], ["trace.took", tookText(app, ms)], ...(waited ? [["trace.step.wait", tookText(app, waited)]] : []),
    ...(sums?.calls ? [["trace.model_calls", number(sums.calls)], ["trace.tokens_read", number(sums.read)], ["trace.tokens_cached", number(sums.cached)], ["trace.tokens_written", number(sums.written)], ["usage.cost", sums.cost === null ? t("usage.cost_unknown") : costText(sums.cost, lang)]] : [])];
  return [h("h3", title), question ? h("p.trace-question", question) : "", factList(t, pairs), h("p.note", t("trace.keys"))];
}

function factList(t, pairs) {
  return pairs.length ? h("dl.trace-facts", pairs.map(([name, value]) => h("div", h("dt", t(name)), h("dd", value)))) : "";
}
