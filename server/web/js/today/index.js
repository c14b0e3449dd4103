// The morning view: what happened in all graphs since this person last looked; each line opens its run or proposal.

import { ApiError } from "../api.js";
import { usedText } from "../automations/facts.js";
import { createParts, h, replace } from "../dom.js";
import { costText, numberText, personName, timeText } from "../names.js";
import { markSeen, readToday } from "./service.js";

const SPANS = { look: null, day: 86_400_000, week: 7 * 86_400_000 };
const LISTED = 5; // findings of an automation that are shown at once

export function mountToday(app, element) {
  const { store, t } = app;
  const top = h("div.threads-top.today-top");
  const list = h("div.auto-list.today");
  const [drawTop, drawList] = [top, list].map(createParts);
  const panel = { span: "look", seen: null, error: null, asked: 0 };
  element.classList.add("automations");
  replace(element, top, list);
  for (const part of ["panel", "me", "lang"]) store.on(part, () => store.get().panel === "today" && load());
  for (const part of ["graphs", "names"]) store.on(part, draw);
  draw();

  async function load() {
    const mine = ++panel.asked;
    try {
      const span = SPANS[panel.span];
      const seen = await readToday(app.api, span && Date.now() - span);
      if (mine === panel.asked) Object.assign(panel, { seen, error: null });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine === panel.asked) panel.error = error;
    }
    draw();
  }

  function draw() {
    const { lang, graphs, names } = store.get();
    const { seen, error } = panel;
    const part = (key, facts, make) => ({ key, facts: [lang, ...facts], make });
    drawTop([
      part("title", [], () => h("h2", t("panel.today"))),
      part("span", [], chooser),
      part("seen", [Boolean(seen)], () => h("button.primary", { type: "button", disabled: !seen, title: t("today.seen_hint"), onclick: look }, t("today.seen"))),
    ]);
    if (error) return drawList([part("failed", [error], () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: load }, t("app.retry"))))]);
    if (!seen) return drawList([part("loading", [], () => h("p.notice-line", { role: "status" }, t("today.loading")))]);
    const parts = PARTS.filter((one) => seen[one.name].length);
    return drawList([
      part("since", [seen.since], () => h("p.note", { role: "status" }, t("today.since", { when: timeText(seen.since, lang) }))),
      ...(parts.length ? [] : [part("empty", [], () => h("div.auto-empty", h("p.notice-title", t("today.empty")), h("p.note", t("today.empty_hint"))))]),
      ...parts.map((one) => part(one.name, [seen, graphs, names], () => section(one))),
    ]);
  }

  function chooser() {
    const select = h("select", { "aria-label": t("today.span") }, Object.keys(SPANS).map((name) => h("option", { value: name, selected: name === panel.span }, t(`today.span.${name}`))));
    select.addEventListener("change", () => {
      panel.span = select.value;
      load();
    });
    return select;
  }

  // From now on, only what comes after what is shown is told.
  async function look(event) {
    event.currentTarget.disabled = true;
    try {
      await markSeen(app.api, panel.seen.now);
      panel.span = "look";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    await load();
  }

  function section({ name, line }) {
    const rows = panel.seen[name];
    const more = panel.seen.more[name];
    const id = `today-${name}`;
    return h("section.today-part", { "aria-labelledby": id }, h("h3", { id }, t(`today.${name}`), " ", h("span.count", String(rows.length + (more ?? 0)))),
      name === "findings" ? h("p.note", t("today.compared")) : "",
      h("ul", rows.map((row) => h("li", row.address ? h("a.today-row", { href: row.address }, line(app, row)) : h("div.today-row", line(app, row)), name === "findings" ? findings(row) : "")),
        more ? h("li.note", t("today.more", { n: more })) : ""));
  }

  function findings({ new: fresh, gone }) {
    const item = (mark, kind, text) => h("li", { class: kind }, h("span", { "aria-hidden": "true" }, `${mark} `), h("span.sr-only", `${t(`today.${kind}`, { n: 1 })}: `), text);
    const items = [...fresh.map((text) => item("+", "is_new", text)), ...gone.map((text) => item("−", "is_gone", text))];
    if (!items.length) return "";
    const rest = items.splice(LISTED);
    return h("ul.today-findings", items, rest.length ? h("li", h("details", h("summary", t("today.more", { n: rest.length })), h("ul", rest))) : "");
  }
}

const graphName = ({ store }, key) => (store.get().graphs ?? []).find((one) => one.graphKey === key)?.name ?? key;

// The two lines of a row: what it is, and what is to know of it.
function two(app, title, facts, tone = "plain") {
  return [h("strong", { class: `is-${tone}` }, title), h("span.thread-facts", facts.filter(Boolean).join(" · "))];
}

const when = ({ store }, time) => timeText(time, store.get().lang);

const PARTS = [
  { name: "runs", line: (app, row) => two(app, row.name, [app.t(`today.run.${row.state}`), reasonText(app, row), graphName(app, row.graphKey), when(app, row.time)], row.state === "waits" ? "live" : "bad") },
  { name: "proposals", line: (app, row) => two(app, row.title, [personName(app, row.asker), graphName(app, row.graphKey), when(app, row.time)]) },
  { name: "findings", line: (app, row) => two(app, row.name, [...["new", "same", "gone"].filter((kind) => row.counts[kind]).map((kind) => app.t(`today.is_${kind}`, { n: row.counts[kind] })), row.isCompared ? "" : app.t("today.first"), graphName(app, row.graphKey), when(app, row.time)], row.counts.new ? "warn" : "plain") },
  { name: "decisions", line: (app, row) => two(app, row.title, [app.t(`today.decided.${row.status}`, { who: personName(app, row.by) }), graphName(app, row.graphKey), when(app, row.time)]) },
  { name: "costs", line: (app, row) => two(app, row.name, [app.t("today.of_runs", { n: row.runs, most: row.maxRuns }), usedText(app, { tokens: row.tokens, costUsd: row.costUsd ?? null }), row.maxCostUsd && app.t("today.of_cost", { most: costText(row.maxCostUsd, app.store.get().lang) })]) },
  { name: "limits", line: (app, row) => [h("span", limitText(app, row))] },
];

// What is used of a limit of this month: of its costs if there is one for them, else of its tokens.
function limitText({ t, store }, { whose, usedTokens, maxTokens, usedCost, maxCost }) {
  const { lang } = store.get();
  const [used, most] = maxCost ? [costText(usedCost, lang), costText(maxCost, lang)] : [t("chat.tokens", { n: usedTokens }), numberText(maxTokens, lang)];
  return t(`usage.limit_${whose}`, { used, most });
}

function reasonText({ t }, { state, reason }) {
  const key = { failed: `auto.ended.${reason}`, waits: `auto.phase.${reason}`, skipped: `auto.skipped.${reason}` }[state];
  return reason === "REPORTED" || !key ? "" : t(key, { n: 1 });
}
