// What was applied to a graph, newest first, with undo; for reviewers also the audit log behind it.

import { ApiError } from "../api.js";
import { listRunsOf } from "../automations/service.js";
import { standingOf } from "../automations/standing.js";
import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { personName, sentences, timeText } from "../names.js";
import { mayAudit, mayEdit } from "../roles.js";
import { stateOf } from "./approvals.js";
import { createAudit } from "./audit.js";
import { loadApprovals } from "./book.js";
import { createCard } from "./card.js";
import { linesOf, timeOf } from "./lines.js";

const LIMIT = 100;

// Returns the view: `element`, and `load(graphKey)` which shows a graph's history (null: of all graphs).
export function createHistory(app) {
  const rows = h("ol.history");
  const log = h("div.audit");
  const element = h("div.history-view", { hidden: true }, rows, log);
  let cards = [];
  let shown = "";
  let shownApprovals = [];
  let asked = 0;

  async function load(graphKey) {
    const mine = ++asked;
    const filter = { status: "applied", limit: LIMIT, ...(graphKey ? { graphKey } : {}) };
    try {
      const approvals = await loadApprovals(app, filter);
      const runs = linesOf(approvals, await listRunsOf(app.api, graphKey, LIMIT));
      const { revisions } = graphKey ? await app.api.get(app.path`/api/graphs/${graphKey}/revisions`, { limit: LIMIT }) : { revisions: [] };
      if (mine !== asked) return; // another graph meanwhile
      const edits = revisions.filter((one) => !one.approvalId).map((edit) => ({ at: edit.revision, edit }));
      await Promise.all([...new Set([...approvals.map((one) => one.decision?.by), ...edits.map(({ edit }) => edit.by)])].map(app.people.named));
      const lines = [...runs, ...edits].sort((one, other) => other.at - one.at);
      const stamp = JSON.stringify([app.store.get().lang, [...app.store.get().names.values()], graphKey, edits.map(({ edit }) => [edit.id, edit.undoneBy]), approvals.map((one) => [one.id, one.undoneBy]), lines.map(({ run }) => run && [run.phase, run.endReason])]);
      if (stamp === shown) return;
      shown = stamp;
      shownApprovals = approvals;
      render(lines, graphKey);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      shown = "";
      replace(rows, h("li.notice-line", { role: "alert" }, error.message));
    }
  }

  function render(lines, graphKey) {
    cards.forEach((card) => card.destroy());
    cards = [];
    replace(rows, ...lines.map((line) => (line.edit ? editRow(line.edit, graphKey) : line.approval ? row(line.approval, graphKey) : runRow(line, graphKey))));
    if (!lines.length) rows.append(h("li.notice-line", h("p.notice-title", app.t("history.empty")), h("p.note", app.t("history.empty_hint"))));
    const { me } = app.store.get();
    replace(log, mayAudit(me) ? createAudit(app, graphKey) : "");
  }

  function row(approval, graphKey) {
    const { lang } = app.store.get();
    const state = stateOf(approval);
    const title = approval.title;
    const facts = [timeText(timeOf(approval), lang), approval.decision && personName(app, approval.decision.by), approval.result?.revision && app.t("history.revision", { revision: String(approval.result.revision) })].filter(Boolean);
    const box = h("details.history-item",
      h("summary", h("span.history-title", approval.undoes ? `↶ ${title}` : title), h("span.history-facts", facts.join(" · "), state === "undone" ? ` · ${app.t("state.undone")}` : "")));
    box.addEventListener("toggle", () => {
      if (!box.open || box.childElementCount > 1) return;
      const card = createCard(app, approval, { siblings: () => shownApprovals, onUndone: () => load(graphKey) });
      cards.push(card);
      box.append(card.element);
    });
    return h("li", { class: `is-${state}` }, box);
  }

  // An edit by hand: its words, and undoing it.
  function editRow(edit, graphKey) {
    const { lang, me } = app.store.get();
    const text = edit.steps ? sentences(edit.steps, app).join(" · ") : edit.what;
    const facts = [timeText(edit.revision, lang), personName(app, edit.by), app.t(`blame.${edit.kind}`), edit.undoneBy && app.t("state.undone")].filter(Boolean);
    const take = h("button", { type: "button", onclick: () => takeBack(edit, take, graphKey) }, icon("undo"), app.t("canvas.take_back"));
    return h("li", { class: edit.undoneBy ? "is-undone" : "is-edit" }, h("div.history-item.history-edit",
      h("span.history-title", edit.kind === "undo" ? `↶ ${text}` : text), h("span.history-facts", facts.join(" · ")), edit.steps && !edit.undoneBy && mayEdit(me) ? take : ""));
  }

  async function takeBack(edit, button, graphKey) {
    button.disabled = true;
    try {
      await app.api.post(app.path`/api/graphs/${graphKey}/history/${edit.id}/take-back`);
      app.toast("ok", app.t("canvas.taken_back"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", app.t("canvas.edit_refused", { reason: error.message }));
    }
    await load(graphKey);
  }

  // A run is one line, its changes within.
  function runRow({ runId, run, approvals, at }, graphKey) {
    const { t, store } = app;
    const name = run?.name ?? (store.get().automations ?? []).find((one) => one.id === approvals[0].automationId)?.name ?? "";
    const facts = [timeText(at, store.get().lang), run && t(`auto.${standingOf(run)}`), run?.report && t(`auto.found.${run.report.outcome}`), t("auto.history_changes", { n: approvals.length })].filter(Boolean);
    const show = h("button", { type: "button", onclick: () => store.set({ runShown: runId }) }, t("auto.show_run"));
    return h("li.is-run", h("details.history-item",
      h("summary", h("span.history-title", icon("automations"), " ", t("auto.history_run", { name })), h("span.history-facts", facts.join(" · "))),
      h("div.history-run", run ? h("div.card-buttons", show) : "", h("ol.history", approvals.map((approval) => row(approval, graphKey))))));
  }

  return { element, load };
}
