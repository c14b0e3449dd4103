// What is said of automations and runs in several places: times, costs, and how a run ended, what it found, what waits.

import { h } from "../dom.js";
import { costText, timeText } from "../names.js";
import { createStrip } from "../strip.js";
import { isOver, standingOf, tokensOf, toneOfEnd, toneOfReport } from "./standing.js";

// The three things to know of a run, each by itself.
export function threeOf({ t }, run, waiting) {
  const found = run.report?.outcome;
  return createStrip([
    { label: t(isOver(run) ? "auto.how_ended" : "auto.stands"), tone: toneOfEnd(run), text: t(`auto.${standingOf(run)}`) },
    { label: t("auto.found"), tone: toneOfReport(run.report), text: t(found ? `auto.found.${found}` : isOver(run) ? "auto.found.none" : "auto.found.not_yet") },
    { label: t("auto.waits"), tone: waiting ? "live" : "plain", text: waiting ? t("auto.waiting", { n: waiting }) : t("auto.waits_none") },
  ]);
}

// A time on the clock of a zone, with the zone's name.
export function zoneText(ms, timezone, lang) {
  const form = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  return `${new Intl.DateTimeFormat(lang, { ...form, timeZone: timezone }).format(ms)} (${timezone})`;
}

// A time as the reader's clock has it; the tooltip has the automation's clock too.
export function timeElement({ store }, ms, timezone) {
  const { lang } = store.get();
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const title = [...new Set([timezone, own].filter(Boolean))].map((zone) => zoneText(ms, zone, lang)).join("\n");
  return h("time", { datetime: new Date(ms).toISOString(), title }, timeText(ms, lang));
}

// What was used: `{tokens, costUsd}` or the sums of a run.
export function usedText({ t, store }, usage) {
  const tokens = usage.tokens ?? tokensOf(usage);
  const isUnknown = usage.costUsd === null || usage.unpricedTokens > 0;
  const cost = isUnknown ? t("usage.cost_unknown") : usage.costUsd > 0 && costText(usage.costUsd, store.get().lang);
  return [tokens ? t("chat.tokens", { n: tokens }) : t("auto.no_tokens"), cost].filter(Boolean).join(" · ");
}
