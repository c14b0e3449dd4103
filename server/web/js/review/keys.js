// The keys of the review panel: to the next and the one before, approve, reject, edit, undo, comment.

import { isTyping } from "../keys.js";
import { isOpen } from "./approvals.js";
import { take } from "./book.js";
import { undo } from "./service.js";

// `cards()`: those shown, in order. `last()`: the approval that was decided last here.
export function listenForKeys(app, panel, { cards, last }) {
  document.addEventListener("keydown", (event) => {
    if (app.store.get().panel !== "review" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]") || !(panel.contains(event.target) || event.target === document.body)) return;
    const all = cards();
    const at = all.findIndex((card) => card.element.contains(document.activeElement));
    const run = KEYS[event.key.toLowerCase()];
    if (!run || run({ app, all, at, card: all[at], last }) === false) return;
    event.preventDefault();
  });
}

const open = ({ card }) => card && isOpen(card.approval) && !card.approval.objection && !card.isBusy;

const KEYS = {
  j: ({ all, at }) => all[Math.min(at + 1, all.length - 1)]?.focus(),
  k: ({ all, at }) => all[Math.max(at - 1, 0)]?.focus(),
  a: (here) => (open(here) ? here.card.approve() : false),
  r: (here) => (open(here) ? here.card.openRemark("reject") : false),
  e: (here) => (open(here) ? here.card.openEdit() : false),
  c: ({ card }) => (card ? card.comment() : false),
  u: undoHere,
};

// Takes back the change of the card, which asks first, or the one that was just approved, which may be approved again.
// Decision: a rejection stands. Its conversation or run went on with it, so a proposal opened again would answer nobody.
function undoHere({ app, card, last }) {
  if (card?.approval.status === "applied") return card.undo();
  const done = app.store.get().approvals.get(last()?.id);
  if ([card?.approval, done].some((one) => one?.status === "rejected")) return app.toast("info", app.t("review.rejection_stands"));
  if (done?.status !== "applied" || done.undoneBy) return app.toast("info", app.t("review.nothing_to_undo"));
  return undo(app.api, done.graphKey, done.id).then((document) => {
    take(app, [document]);
    app.toast("ok", app.t("undo.done"));
  }).catch((error) => app.toast("error", error.message));
}
