// The line over proposals that belong together: show all on the canvas, approve or reject all.

import { h } from "../dom.js";
import { personName, timeText } from "../names.js";
import { isOpen } from "./approvals.js";
import { decideAll } from "./book.js";
import { ghostsOf } from "./ghosts.js";
import { together } from "./groups.js";

// Whether all came with what they change: of a long list the later ones are read one by one.
const isWhole = (approvals) => !approvals.some((one) => one.shortened);

// Returns `headOf(group, by)`, the part of a list that shows a group's head ([] for a group of one).
// `onDecided(approvals)` is called after a decision here.
export function createGroupHead(app, { onDecided }) {
  const { t, store } = app;
  const ghosts = ghostsOf(app);
  let busy = "";

  function headOf({ key, name, approvals }, by) {
    if (approvals.length < 2) return [];
    const { lang, graphKey } = store.get();
    return [{ key: `group ${key}`, facts: [lang, graphKey, by, titleOf(by, name, approvals), approvals.map((one) => one.id).join(), busy === key, isWhole(approvals)], make: () => head(key, titleOf(by, name, approvals), approvals) }];
  }

  function titleOf(by, name, [first]) {
    const { automations, graphs, lang } = store.get();
    if (["answer", "automation"].includes(by) && first.automationId) return (automations ?? []).find((one) => one.id === first.automationId)?.name ?? t("review.of_automation");
    if (by === "answer") return t("review.of_answer", { who: personName(app, first.asker), when: timeText(first.created, lang) });
    if (by === "automation") return t("review.of_people");
    if (by === "asker") return personName(app, name);
    return by === "graph" ? (graphs ?? []).find((one) => one.graphKey === name)?.name ?? name : name;
  }

  function head(key, title, approvals) {
    const mine = approvals.filter((one) => !one.objection);
    const button = (kind, text, run) => h("button", { type: "button", class: kind, disabled: busy === key || !isWhole(approvals), onclick: run }, text);
    return h("div.review-group", { role: "group", "aria-label": title }, h("h3", title, " ", h("span.count", String(approvals.length))), h("div.card-buttons",
      button("quiet", t("review.together"), () => showAll(key, title, approvals)),
      ...(mine.length > 1 ? [button("", t("card.approve_all", { n: mine.length }), () => send(key, mine, "approve")), button("quiet-danger", t("review.reject_all", { n: mine.length }), () => reject(key, mine))] : [])));
  }

  // One preview of all that they do in the open graph, or in that of the first.
  async function showAll(key, title, approvals) {
    if (!approvals.some((one) => one.graphKey === store.get().graphKey)) await app.live.open(approvals[0].graphKey);
    const { graphKey } = store.get();
    ghosts.show({ ...approvals[0], id: `group ${key}`, graphKey, title, preview: together(approvals, graphKey), expires: Infinity });
    if (matchMedia("(max-width: 760px)").matches) store.set({ panel: "canvas" });
    app.canvas.revealGhosts();
  }

  async function reject(key, approvals) {
    const reason = h("textarea", { rows: "3", maxlength: "4000", "aria-label": t("card.feedback"), placeholder: t("card.feedback_hint") });
    if (await app.confirm({ title: t("review.reject_all", { n: approvals.length }), text: t("card.feedback"), details: reason, ok: t("card.reject_now"), danger: true })) await send(key, approvals, "reject", reason.value.trim());
  }

  async function send(key, approvals, verdict, feedback) {
    busy = key;
    try {
      const decided = await decideAll(app, approvals.filter(isOpen), verdict, feedback);
      ghosts.drop(null, { id: `group ${key}` });
      busy = "";
      onDecided(decided);
    } finally {
      busy = "";
    }
  }

  return headOf;
}
