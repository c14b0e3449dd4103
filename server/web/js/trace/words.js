// How a step of an answer is called, and what is said beside it in its row.

import { briefly, toolName } from "../chat/tools.js";
import { costText, nameOf, numberText } from "../names.js";
import { stateOf } from "../review/approvals.js";

const SHOWN = 160; // characters of a text in a row

// How long something took, as people read it. Units: milliseconds.
export function tookText({ t, store }, ms) {
  const { lang } = store.get();
  if (ms < 1_000) return t("trace.ms", { n: numberText(ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms), lang) });
  if (ms < 120_000) return t("trace.s", { n: numberText(Math.round(ms / 100) / 10, lang) });
  return t("trace.min", { n: numberText(Math.round(ms / 60_000), lang) });
}

export function titleOf(app, { kind, facts }) {
  const { t } = app;
  if (kind === "tool") return toolName(app, facts.tool);
  if (kind === "by") return t.has(`trace.by.${facts.name}`) ? t(`trace.by.${facts.name}`) : facts.name;
  if (kind === "saw" && facts.isRules) return t("trace.step.saw_rules");
  if (kind === "wait" && facts.status === "limit") return t("trace.step.limit");
  return t(`trace.step.${kind}`);
}

// What a reason of a search is called: "near “Fetch”".
export function reasonText(app, reason) {
  const { t } = app;
  const near = /^near:(.+)$/.exec(reason)?.[1];
  if (near) return t("trace.near", { name: nameOf(app, near) });
  return t.has(`trace.by.${reason}`) ? t(`trace.by.${reason}`) : reason;
}

const oneLine = (text) => {
  const flat = text.replace(/\{\{\w+:([^{}]*)\}\}/g, "$1").replace(/\s+/g, " ").trim();
  return flat.length > SHOWN ? `${flat.slice(0, SHOWN)}…` : flat;
};

export function tokensText({ t, store }, facts) {
  const { lang } = store.get();
  const part = facts.cachedTokens ? "trace.tokens" : "trace.tokens_new";
  return t(part, { read: numberText(facts.inputTokens, lang), cached: numberText(facts.cachedTokens, lang), written: numberText(facts.outputTokens, lang) });
}

// The words beside a step's title.
export function besideOf(app, { kind, facts, isFailed }) {
  const { t, store } = app;
  const { lang, approvals } = store.get();
  const number = (n) => numberText(n, lang);
  switch (kind) {
    case "question":
    case "answer":
      return oneLine(facts.text);
    case "search":
      return [t("trace.nodes", { n: facts.nodes?.length ?? 0 }), t("trace.edges", { n: facts.edges ?? 0 }), facts.cached ? t("trace.cached") : ""].filter(Boolean).join(" · ");
    case "by":
      return [t("trace.hits", { n: facts.hits }), facts.best[0] ? t("trace.best", { name: nameOf(app, facts.best[0][0]), score: number(facts.best[0][1]) }) : ""].filter(Boolean).join(" · ");
    case "searches":
      return t("trace.searches", { n: facts.n });
    case "read":
      return [t("trace.edges", { n: facts.edges ?? 0 }), facts.near ? t("trace.reached", { n: facts.near }) : ""].filter(Boolean).join(" · ");
    case "chosen":
      return facts.nodes.slice(0, 5).map(({ key }) => nameOf(app, key)).join(", ");
    case "saw":
      return [t("trace.messages", { n: facts.context.length }), t("trace.chars", { n: number(facts.context.reduce((sum, { chars }) => sum + chars, 0)) }), facts.tokens ? t("trace.read", { n: number(facts.tokens) }) : ""].filter(Boolean).join(" · ");
    case "model":
    case "second_look":
      return [facts.model, tokensText(app, facts), facts.costUsd ? costText(facts.costUsd, lang) : "", isFailed ? t("tool.failed") : ""].filter(Boolean).join(" · ");
    case "rules":
      return t("trace.no_model");
    case "tool":
      return [isFailed ? t("tool.failed") : "", facts.cached ? t("trace.cached") : "", briefly(app, facts.arguments)].filter(Boolean).join(" · ");
    case "proposal": {
      const approval = approvals.get(facts.approvalId);
      return approval ? `${approval.title} · ${t(`state.${stateOf(approval)}`)}` : "";
    }
    case "wait":
      return facts.waited === undefined ? t("trace.still") : tookText(app, facts.waited);
    default:
      return "";
  }
}
