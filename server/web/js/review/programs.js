// The programs that propose from outside, for admins: when each was seen, blocking one, undoing all that it did.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { ago } from "../names.js";

export async function openPrograms(app) {
  const { t, api, store } = app;
  const body = h("div.usage");
  const { programs } = await attempt(() => api.get("/api/programs")) ?? {};
  if (!programs) return;
  app.openDialog({ title: t("programs.title"), wide: true, content: h("div", h("p.note", t("programs.hint")), body) });
  draw(programs);

  function draw(found) {
    if (!found.length) return replace(body, h("p.muted", t("programs.none")));
    const names = ["program", "seen", "proposed", "rule", "actions"];
    replace(body, h("table", h("thead", h("tr", names.map((name) => h("th", { scope: "col" }, t(`programs.${name}`))))), h("tbody", found.map(row))));
  }

  function row({ id, client, lastTime, proposed, today, rule }) {
    const isBlocked = rule?.blocked;
    const block = h("button", { type: "button", onclick: () => setRule(id, isBlocked ? null : { ...rule, blocked: true }) }, t(isBlocked ? "programs.unblock" : "programs.block"));
    const undo = h("button", { type: "button", onclick: () => undoAll(id) }, t("programs.undo"));
    const name = h("span", id, client.version ? h("span.muted", ` ${client.version}`) : "");
    return h("tr", h("th", { scope: "row" }, name), h("td", lastTime ? ago(lastTime, store.get().lang, t) : t("programs.never")), h("td", String(proposed)), h("td", ruleText(rule, today)), h("td", block, " ", undo));
  }

  function ruleText(rule, today) {
    if (!rule) return "–";
    if (rule.blocked) return t("programs.blocked");
    const parts = [rule.classes && rule.classes.map((name) => t(`policy.class.${name}`)).join(", "), rule.daily !== undefined && t("programs.daily", { today, daily: rule.daily }), rule.deciders !== "workspace" && t(`programs.${rule.deciders}`)];
    return parts.filter(Boolean).join(" · ") || "–";
  }

  async function setRule(program, rule) {
    const found = await attempt(() => api.put("/api/programs/rule", { program, rule: rule && without(rule) }));
    if (found) draw(found.programs);
  }

  async function undoAll(program) {
    const found = await attempt(() => api.post("/api/programs/undo", { program }, { isLong: true }));
    if (found) app.toast(found.refused.length ? "warn" : "ok", t("programs.undone", { n: found.undone.length, refused: found.refused.length }));
  }

  async function attempt(work) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
      return null;
    }
  }
}

// What is not set is left out: the service takes no null for a number.
const without = (rule) => Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== null && value !== undefined));
