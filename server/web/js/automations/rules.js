// What holds for all automations of a workspace: a pause with its reason, and the budget of a day.

import { ApiError } from "../api.js";
import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { costText, numberText, personName, timeText } from "../names.js";
import { mayAdminister, mayAudit } from "../roles.js";

// Draws them in an element. Returns `{load()}`.
export function createRules(app, element) {
  const { store, t } = app;
  const draw = createParts(element);
  let shown = [];
  for (const part of ["lang", "me", "names"]) store.on(part, show);
  return { load };

  async function load() {
    await ask(() => app.api.get("/api/automation-rules"));
  }

  async function ask(work) {
    try {
      shown = (await work()).workspaces;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    show();
  }

  function show() {
    const { me, lang, names } = store.get();
    const isPaused = shown.some((one) => one.paused);
    const part = (key, facts, make) => ({ key, facts: [lang, me?.role, names, ...facts], make });
    draw([
      ...shown.filter((one) => one.paused).map((one) => part(one.workspace, [JSON.stringify(one.paused)], () => pauseOf(one))),
      ...shown.filter((one) => one.dayTokens || one.dayCostUsd).map((one) => part(`budget-${one.workspace}`, [JSON.stringify(one)], () => h("p.note", budgetText(one)))),
      ...(shown.length && mayAudit(me) ? [part("acts", [isPaused], () => h("div.card-buttons",
        isPaused ? button("auto.resume_all", "Play", resume) : button("auto.pause_all", "stop", pause),
        mayAdminister(me) ? button("auto.workspace_budget", "Settings", budget) : ""))] : []),
    ]);
  }

  function button(key, glyph, onclick) {
    return h("button", { type: "button", onclick }, icon(glyph), t(key));
  }

  function pauseOf({ workspace, paused }) {
    const { lang, me } = store.get();
    const said = t("auto.all_paused", { who: personName(app, paused.by), when: timeText(paused.time, lang) });
    return h("div.notice-line.auto-all-paused", { role: "status" }, h("p", h("strong", said), paused.reason ? ` ${paused.reason}` : "", (me?.workspaces.length ?? 1) > 1 ? ` (${workspace})` : ""));
  }

  // What is used of the day's budget, and how much that is.
  function budgetText({ dayTokens, dayCostUsd, usedTokens, usedCostUsd }) {
    const { lang } = store.get();
    const tokens = dayTokens && t("auto.budget_tokens", { used: numberText(usedTokens, lang), most: numberText(dayTokens, lang) });
    const cost = dayCostUsd && t("auto.budget_cost", { used: usedCostUsd === undefined ? "?" : costText(usedCostUsd, lang), most: costText(dayCostUsd, lang) });
    return [t("auto.workspace_today"), tokens, cost].filter(Boolean).join(" · ");
  }

  async function pause() {
    const reason = await app.prompt({ title: t("auto.pause_all"), label: t("auto.pause_why"), ok: t("auto.pause") });
    if (reason !== null) await ask(() => app.api.post("/api/automation-rules/pause", { reason }));
  }

  function resume() {
    return ask(() => app.api.post("/api/automation-rules/resume"));
  }

  async function budget() {
    const [now] = shown;
    const field = (key, value, step) => h("label.edit-field", t(key), h("input", { type: "number", min: 0, step, value: value ?? "", placeholder: t("auto.no_limit") }));
    const [tokens, cost] = [field("auto.day_tokens", now.dayTokens, 1), field("auto.day_cost", now.dayCostUsd, "any")];
    const number = (label) => Number(label.querySelector("input").value) || null;
    const save = async () => {
      const body = { dayTokens: number(tokens), dayCostUsd: number(cost) };
      dialog.close();
      await ask(() => app.api.put("/api/automation-rules/budget", body));
    };
    const form = h("form#workspace-budget.auto-form", { onsubmit: (event) => (event.preventDefault(), save()) }, h("p.note", t("auto.workspace_budget_hint")), tokens, cost);
    const dialog = app.openDialog({ title: t("auto.workspace_budget"), content: form, actions: [h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), h("button.primary", { type: "submit", form: "workspace-budget" }, t("auto.save"))] });
    tokens.querySelector("input").focus();
  }
}
