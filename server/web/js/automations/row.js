// An automation in the list: when it runs, how its last run went, what waits, what today cost, and what can be done.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { ago, personName } from "../names.js";
import { mayManage, maySeeRuns, mayTakeOver } from "../roles.js";
import { threeOf, timeElement, usedText } from "./facts.js";
import { standingOf } from "./standing.js";

// `runs`: its runs, null while they are read, undefined while they are not shown. `act` holds what the buttons do.
export function createRow(app, automation, { runs, act }) {
  const { t, store } = app;
  const { me, graphKey, graphs } = store.get();
  const { id, name, last, enabled } = automation;
  const mayAct = mayManage(me, automation);
  const graph = automation.graphKey === graphKey ? "" : (graphs ?? []).find((one) => one.graphKey === automation.graphKey)?.name ?? automation.graphKey;
  const heading = `auto-${id}`;
  return h("article.auto", { class: enabled ? undefined : "is-paused", "aria-labelledby": heading, dataset: { automation: id } },
    h("header.auto-head", h("h3", { id: heading }, name), switchOf()),
    h("p.auto-schedule", automation.schedule, nextOf()),
    last ? threeOf(app, last, automation.waiting) : h("p.note", t("auto.no_run")),
    skippedLine(),
    h("p.card-meta", [t("auto.today", { n: automation.spentToday.runs }), usedText(app, automation.spentToday), automation.userId !== me?.userId && personName(app, automation.userId), graph && t("card.in_graph", { graph })].filter(Boolean).join(" · ")),
    h("div.card-buttons", ...buttons()),
    runs === undefined ? "" : runsList());

  function switchOf() {
    const label = `${t("auto.enabled")}: ${name}`;
    return h("button.switch", { type: "button", role: "switch", "aria-checked": String(enabled), "aria-label": label, title: t(enabled ? "auto.pause" : "auto.enable"), disabled: !mayAct, onclick: () => act.toggle(automation) }, h("span"));
  }

  function nextOf() {
    if (!enabled) return h("span.auto-paused", ` · ${t(`auto.paused.${automation.pausedReason ?? "person"}`)}`);
    return automation.nextTime ? [` · ${t("auto.next")} `, timeElement(app, automation.nextTime, automation.timezone)] : "";
  }

  // A time at which nothing ran is said as long as no run came after it.
  function skippedLine() {
    const [skipped] = automation.skipped ?? [];
    if (!skipped || skipped.time < (last?.scheduledTime ?? 0)) return "";
    return h("p.note", timeElement(app, skipped.time, automation.timezone), ` · ${t(`auto.skipped.${skipped.reason}`, { n: skipped.count ?? 1 })}`);
  }

  function buttons() {
    const button = (key, glyph, run, kind) => h("button", { type: "button", class: kind, title: t(key), "aria-label": `${t(key)}: ${name}`, onclick: run }, icon(glyph), kind === "icon-button" ? "" : t(key));
    return [
      last && last.phase !== "completed" ? button("auto.show_run", "eye", () => act.showRun(last.sessionId)) : mayAct ? button("auto.run", "Play", () => act.run(automation)) : "",
      mayAct ? button("auto.trial", "eye", () => act.tryIt(automation)) : "",
      maySeeRuns(me, automation) && last ? h("button", { type: "button", "aria-expanded": String(runs !== undefined), "aria-label": `${t("auto.runs")}: ${name}`, onclick: () => act.toggleRuns(automation) }, icon("history"), t("auto.runs")) : "",
      mayTakeOver(me, automation) ? button("auto.take_over", "person", () => act.takeOver(automation)) : "",
      h("span.grow"),
      mayAct ? button("auto.edit", "pencil", () => act.edit(automation), "icon-button") : "",
      mayAct ? button("auto.remove", "trash", () => act.remove(automation), "icon-button") : "",
    ];
  }

  function runsList() {
    if (runs === null) return h("p.note", { role: "status" }, t("auto.loading"));
    return h("ol.auto-runs", runs.map((run) => h("li", runButton(app, run, act.showRun))));
  }
}

// A run in one line: when, how it ended, what it found.
export function runButton(app, run, onShow) {
  const { t, store } = app;
  const found = run.report && t(`auto.found.${run.report.outcome}`);
  const facts = [t(`auto.${standingOf(run)}`), found, run.proposed && t("auto.proposed", { n: run.proposed }), usedText(app, run.usage)].filter(Boolean);
  return h("button.auto-run", { type: "button", onclick: () => onShow(run.sessionId) },
    h("span", timeElement(app, run.startedTime ?? run.scheduledTime), ` · ${ago(run.startedTime ?? run.scheduledTime, store.get().lang, t)}`), h("span.thread-facts", facts.join(" · ")));
}
