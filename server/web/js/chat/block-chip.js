// A block under the message: what it says and weighs, the period it looks at, and the way to leave it out.

import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { nameOf } from "../names.js";
import { datesOf, kindOf, ofDates, PRESETS } from "./periods.js";

const TAKES_PERIOD = ["POINTER", "USE"];

// Returns `{element, show(block, found)}`. `found` is `{summary, tokens}` or `{error}` once the server has said it.
export function createChip(app, { onPeriod, onRemove }) {
  const { t, store } = app;
  const element = h("li.block");
  const drawParts = createParts(element);
  return { element, show };

  function show(block, found) {
    const { lang } = store.get();
    const { isPlain } = block;
    const text = found?.error ?? (isPlain ? nameOf(app, block.target.key) : found?.summary) ?? `${t(`block.${block.type}`)} ${block.target.key}`;
    const kind = kindOf(block.period);
    element.classList.toggle("is-wrong", Boolean(found?.error));
    element.classList.toggle("is-plain", Boolean(isPlain));
    drawParts([
      { key: "text", facts: [text], make: () => h("span.block-text", text) },
      ...(found?.tokens && !isPlain ? [{ key: "tokens", facts: [lang, found.tokens], make: () => h("span.muted", t("chat.tokens", { n: found.tokens })) }] : []),
      ...(TAKES_PERIOD.includes(block.type) && !isPlain ? [{ key: "period", facts: [lang, kind, kind === "other" && JSON.stringify(block.period)], make: () => chooser(block, kind) }] : []),
      ...(kind === "dates" ? [{ key: "dates", facts: [lang], make: () => dates(block) }] : []),
      { key: "remove", facts: [lang, text], make: () => h("button.icon-button", { type: "button", title: t("block.remove"), "aria-label": `${t("block.remove")}: ${text}`, onclick: onRemove }, icon("close")) },
    ]);
  }

  function chooser({ period }, kind) {
    const kinds = ["none", ...Object.keys(PRESETS), "dates", ...(kind === "other" ? ["other"] : [])];
    const select = h("select", kinds.map((one) => h("option", { value: one, selected: one === kind }, t(`block.period.${one}`, period ?? {}))));
    select.addEventListener("change", () => onPeriod(select.value === "dates" ? lastWeek() : select.value === "other" ? period : PRESETS[select.value]));
    return h("label.block-period", h("span", t("block.period")), select);
  }

  function lastWeek() {
    const now = Date.now();
    const day = (ms) => datesOf({ from: "NOW", to: "NOW" }, ms)[0];
    return ofDates(day(now - 7 * 86_400_000), day(now), now);
  }

  function dates({ period }) {
    const now = Date.now();
    const [first, last] = datesOf(period, now).map((value, i) => h("input", { type: "date", value, "aria-label": t(i ? "block.period.to" : "block.period.from"), onchange: () => changed() }));
    const changed = () => {
      const found = ofDates(first.value, last.value, Date.now());
      if (found) onPeriod(found);
    };
    return h("span.block-dates", first, " – ", last);
  }
}
