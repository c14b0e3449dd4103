// A proposal in one row: what kind it is, its title, whose it is, where and when, and whether others exclude it.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { ago } from "../names.js";
import { stateOf } from "./approvals.js";
import { sourceOf } from "./facts.js";
import { KIND_ICONS, kindOf } from "./kinds.js";
import { timeOf } from "./lines.js";

// `withGraph`: says the graph too. `isExcluded`: another open proposal cannot be carried out as well.
// The row tells by `onShow()` that it is chosen, by `onOpen()` that its detail is wanted.
export function createRow(app, approval, { withGraph, isExcluded, onShow, onOpen, onHover }) {
  const { t, store } = app;
  const { lang, graphs } = store.get();
  const state = stateOf(approval);
  const kind = kindOf(approval);
  const graph = withGraph && ((graphs ?? []).find((one) => one.graphKey === approval.graphKey)?.name ?? approval.graphKey);
  const facts = [sourceOf(app, approval), graph, ago(timeOf(approval), lang, t), state !== "pending" && t(`state.${state}`)].filter(Boolean);
  return h("button.review-row", {
    type: "button", class: `is-${state}`, dataset: { approval: approval.id },
    onfocus: onShow, onclick: onOpen, onpointerenter: () => onHover(true), onpointerleave: () => onHover(false),
  },
    h("span.row-kind", { title: t(`kind.${kind}`) }, icon(KIND_ICONS[kind]), h("span.sr-only", `${t(`kind.${kind}`)}: `)),
    h("span.row-text", h("span.row-title", approval.title), h("span.row-facts", facts.join(" · "))),
    isExcluded ? h("span.row-conflict", { title: t("review.in_conflict") }, h("span.sr-only", ` ${t("review.in_conflict")}`)) : "");
}
