// What stands over the rows of the review panel: where things stand, the views, and what narrows the list.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { kept } from "../kept.js";
import { ago, numberText, personName } from "../names.js";
import { mayAudit } from "../roles.js";
import { createStrip } from "../strip.js";
import { conflictsWith, programName } from "./facts.js";
import { createFilterBar } from "./filter-bar.js";
import { PROPOSALS } from "./filters.js";
import { GROUPINGS } from "./groups.js";
import { timeOf } from "./lines.js";

const VIEWS = ["open", "inbox", "decided", "history"];

// Returns `render()`, which makes the element anew, `draw(inView)` with the approvals of a view, and `say(text)`.
// `panel` holds what is chosen; `show(view)`, `choose(name, value)` and `filter(name, value)` change it.
export function createReviewTop(app, panel, { show, choose, filter }) {
  const { t, store } = app;
  const said = h("p.review-said", { role: "status" });
  const strip = h("div.review-strip");
  let tabs, find, fold, bar;
  return { render, draw, say: (text) => (said.textContent = text) };

  function render() {
    tabs = h("div.segments", { role: "group", "aria-label": t("review.views") }, ...VIEWS.map((view) => tab(view)));
    find = h("input.review-find", { type: "search", value: panel.code, placeholder: t("review.find"), "aria-label": t("review.find"), oninput: () => choose("code", find.value) });
    bar = createFilterBar(app, PROPOSALS, { onChoose: filter, valueName });
    fold = h("button.filter-fold", { type: "button", "aria-expanded": "false", onclick: () => unfold(bar.element.hidden) }, icon("Filter"), h("span", t("filter.title")), h("span.count"));
    bar.element.hidden = true;
    return h("div.review-top", h("h2.sr-only", t("panel.review")), h("div.review-line", strip, tabs),
      h("div.review-line", chooser("scope", ["graph", "all"]), chooser("group", GROUPINGS), fold, levels(), said), bar.element, find);
  }

  function valueName(name, value, approvals) {
    if (name === "person") return personName(app, value);
    if (name === "automation") return (store.get().automations ?? []).find((one) => one.id === value)?.name ?? t("review.of_automation");
    if (name === "program") return programName(app, approvals.find((one) => one.program === value) ?? {});
    return t(`${{ kind: "kind", state: "state", age: "filter.age" }[name]}.${value}`);
  }

  function unfold(isOpen) {
    bar.element.hidden = !isOpen;
    fold.setAttribute("aria-expanded", String(isOpen));
  }

  function tab(view) {
    const button = h("button", { type: "button", onclick: () => show(view) }, t(`review.${view}`), " ", h("span.count"));
    button.dataset.view = view;
    return button;
  }

  function chooser(name, values) {
    const select = h("select", { "aria-label": t(`review.${name}`) }, ...values.map((value) => h("option", { value, selected: panel[name] === value }, t(`review.${name}.${value}`))));
    select.addEventListener("change", () => choose(name, select.value));
    return h("label.review-choice", h("span", { "aria-hidden": "true" }, t(`review.${name}`)), select);
  }

  function levels() {
    if (!mayAudit(store.get().me)) return "";
    const open = async () => (await import("./policy.js")).openPolicy(app);
    return h("button.icon-button", { type: "button", title: t("policy.title"), "aria-label": t("policy.title"), onclick: open }, icon("Settings"));
  }

  function draw(inView) {
    for (const button of tabs.children) {
      const { view } = button.dataset;
      button.setAttribute("aria-pressed", String(view === panel.view));
      button.querySelector(".count").textContent = unseen(view, inView(view)) || "";
    }
    const listed = inView(panel.view);
    const isHistory = panel.view === "history";
    find.hidden = isHistory || !(panel.code || listed.some((one) => one.spokenCode));
    fold.hidden = isHistory;
    fold.querySelector(".count").textContent = PROPOSALS.names.filter((name) => panel.filters[name]).length || "";
    if (isHistory) unfold(false);
    bar.draw(listed, panel.filters);
    replace(strip, createStrip(standing(inView("open"), inView("decided"))));
  }

  // How many a tab names: those that this person may decide, of one's own those that somebody else decided since.
  function unseen(view, approvals) {
    if (view === "open") return approvals.filter((one) => !one.objection).length;
    if (view !== "inbox") return approvals.length;
    const since = Number(kept.get("review.inbox") ?? 0);
    return approvals.filter((one) => timeOf(one) > since && one.decision?.by !== store.get().me?.userId).length;
  }

  // What waits and since when, what became of the rest, and how many exclude each other.
  function standing(open, decided) {
    const oldest = Math.min(...open.map((one) => one.created ?? Date.now()));
    const applied = decided.filter((one) => one.status === "applied").length;
    const excluded = open.filter((one) => conflictsWith(store.get(), one).length).length;
    return [
      { label: t("review.waits"), tone: open.length ? "live" : "plain", text: open.length ? t("review.waits_since", { n: open.length, when: ago(oldest, store.get().lang, t) }) : t("auto.waits_none") },
      { label: t("review.decided"), tone: "plain", text: decided.length ? t("review.applied_of", { applied, n: decided.length }) : t("auto.waits_none") },
      { label: t("review.conflicts"), tone: excluded ? "warn" : "plain", text: excluded ? numberText(excluded, store.get().lang) : t("auto.waits_none") },
    ];
  }
}
