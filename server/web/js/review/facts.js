// What a card says of its proposal: why, whose, and what became of it.

import { h } from "../dom.js";
import { ago, fieldName, nameOf, personName, timeText } from "../names.js";
import { isExpired, isOpen } from "./approvals.js";

const BY_HAND = "person"; // stands for the model where a person asked without one

const MOST_CONFLICTS = 3; // named on a card; the rest is counted

// Returns the lines over the changes: the reason, its actions, warnings, and who asked for it when.
export function factsOf(app, approval) {
  const { reason, title } = approval;
  const why = reason && !isSaid(reason, title) ? h("p.card-reason", h("span.card-label", app.t("card.why")), " ", reason) : "";
  return [why, partsList(approval), ...(isOpen(approval) ? warnings(app, approval) : []), metaLine(app, approval)];
}

// Whether a reason says nothing that the title does not say.
function isSaid(reason, title) {
  const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  return ` ${plain(title)} `.includes(` ${plain(reason)} `);
}

// Who or what a proposal came from, in a word: an automation, a program, or the person who asked.
export function sourceOf(app, approval) {
  const { automationId, program, asker } = approval;
  if (automationId) return (app.store.get().automations ?? []).find((one) => one.id === automationId)?.name ?? app.t("review.of_automation");
  return program ? `${personName(app, asker)}, ${programName(app, approval)}` : personName(app, asker);
}

// What a program calls itself, else by which way it came.
export function programName({ t }, { client }) {
  return client?.name || (t.has(`card.channel.${client?.channel}`) ? t(`card.channel.${client.channel}`) : t("review.program"));
}

// A proposal of one action is said by the card's title.
function partsList({ parts = [] }) {
  if (parts.length < 2) return parts[0]?.does ? h("p.card-does", parts[0].does) : "";
  return h("ul.card-parts", ...parts.map((part) => h("li", part.text, part.asked ? h("span.card-asked", ` (${part.asked})`) : "", part.does ? h("div.card-does", part.does) : "")));
}

function warnings(app, approval) {
  const { asked = "", warnings: said = [] } = approval;
  const lines = [...new Set(said)].map((text) => h("p.card-warning", "⚠ ", text)).concat(conflictsOf(app, approval));
  return asked ? [...lines, h("p.card-asked", app.t("card.person_for", { asked }))] : lines;
}

// The conflicts of an approval with other open proposals, as the server found them.
export function conflictsWith({ conflicts }, { id, workspace }) {
  return (conflicts?.[workspace] ?? []).filter((one) => one.ids.includes(id));
}

// Which other open proposals cannot be carried out as well; each leads to its row or card where that is shown.
function conflictsOf(app, approval) {
  const found = conflictsWith(app.store.get(), approval);
  const lines = found.slice(0, MOST_CONFLICTS).map((one) => conflictLine(app, approval, one));
  const rest = found.length - lines.length;
  return rest > 0 ? [...lines, h("p.card-warning", "⚠ ", app.t("conflict.more", { n: rest }))] : lines;
}

function conflictLine(app, { id }, { ids, field, name, key }) {
  const other = app.store.get().approvals.get(ids.find((each) => each !== id));
  const show = () => other && [...document.querySelectorAll(`[data-approval="${CSS.escape(other.id)}"]`)].find((one) => one.checkVisibility())?.focus();
  const what = app.t(field ? "conflict.field" : "conflict.whole", { field: fieldName(app.t, field), name: name || nameOf(app, key) });
  return h("p.card-warning.card-conflict", "⚠ ", app.t("conflict.with"), " ", h("button.link-button", { type: "button", onclick: show }, other?.title ?? app.t("conflict.other")), ` — ${what}`);
}

// By which program it came, as that names itself; nothing for what was asked for here.
function through(t, { channel, name = "", version = "", keyId } = {}) {
  if (!channel || ["page", "websocket", "cli"].includes(channel)) return "";
  const shown = name ? `${name} ${version}`.trim() : keyId && t("card.key", { id: keyId });
  return t("card.through", { channel: t(`card.channel.${channel}`) }) + (shown ? ` (${shown})` : "");
}

function metaLine(app, approval) {
  const { t } = app;
  const { lang, graphKey, graphs } = app.store.get();
  const graph = approval.graphKey !== graphKey ? (graphs ?? []).find((one) => one.graphKey === approval.graphKey)?.name ?? approval.graphKey : "";
  const facts = [
    approval.spokenCode && t("card.code", { code: approval.spokenCode }),
    approval.asker && t("card.asked_by", { who: personName(app, approval.asker) }),
    approval.model !== BY_HAND && approval.model,
    through(t, approval.client),
    approval.created && timeText(approval.created, lang),
    graph && t("card.in_graph", { graph }),
    isOpen(approval) && !isExpired(approval) && t("card.expires", { when: ago(approval.expires, lang, t) }),
  ].filter(Boolean);
  return h("p.card-meta", facts.join(" · "));
}

// Returns the lines that say who decided, and what can be done where it could not be carried out.
export function outcomeOf(app, approval, state) {
  const { t } = app;
  const { decision } = approval;
  const lines = [];
  if (decision && decision.verdict !== "expire") lines.push(...decided(app, approval, state));
  if (["stale", "failed"].includes(state)) lines.push(h("p.warn-text", approval.outcome));
  if (["stale", "failed", "expired"].includes(state)) lines.push(h("p.note", t(`outcome.${state}_next`)));
  if (state === "undone") lines.push(h("p.note", t("outcome.undone")));
  return lines;
}

function decided(app, { decision, result }, state) {
  const { t, store } = app;
  if (decision.role === "system" && decision.by === "policy" && state === "applied") {
    return [h("p", t("outcome.by_policy", { when: timeText(decision.at, store.get().lang) }))];
  }
  const byState = { edited: "outcome.edited_by", undo: "outcome.undone_by" };
  const key = decision.verdict === "reject" ? "outcome.rejected_by" : byState[state] ?? "outcome.approved_by";
  const revision = ["applied", "edited"].includes(state) && result?.revision ? ` ${t("outcome.revision", { revision: String(result.revision) })}` : "";
  const line = h("p", t(key, { who: personName(app, decision.by), when: timeText(decision.at, store.get().lang) }), revision);
  return decision.feedback ? [line, h("p.card-feedback", "“", decision.feedback, "”")] : [line];
}
