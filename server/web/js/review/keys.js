// The keys of the review panel: to the next and the one before, approve, reject, edit, undo, comment.

import { takesLetters } from "../keys.js";
import { personName } from "../names.js";
import { isOpen } from "./approvals.js";
import { take } from "./book.js";
import { undo } from "./service.js";

// `cards()`: those of the list, in order. `panel.last`: the approval that was decided last here.
export function listenForKeys(app, list, { cards, panel }) {
  list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !takesLetters(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const all = cards();
    const at = all.findIndex((card) => card.element.contains(document.activeElement));
    const run = KEYS[event.key.toLowerCase()];
    if (!run || (at < 0 && event.target !== list)) return;
    run({ app, all, at, card: all[at], panel });
    event.preventDefault();
  });
}

const KEYS = {
  j: ({ all, at }) => all[Math.min(at + 1, all.length - 1)]?.focus(),
  k: ({ all, at }) => all[Math.max(at - 1, 0)]?.focus(),
  a: (here) => deciding(here, "approve", () => here.card.approve()),
  r: (here) => deciding(here, "reject", () => here.card.openRemark("reject")),
  e: (here) => deciding(here, "edit", () => here.card.openEdit()),
  c: ({ card }) => card?.comment(),
  u: undoHere,
};

// Says why a card is not decided; what was decided before it is not what the next undo is about.
function deciding({ app, card, panel }, what, run) {
  if (!card) return;
  const why = card.obstacle(what);
  if (isOpen(card.approval)) panel.last = null;
  if (why) app.toast("info", why);
  else run();
}

// Takes back the change of the card, which asks first, or the one that was just approved, which may be approved again.
// Decision: a rejection stands. Its conversation or run went on with it, so a proposal opened again would answer nobody.
function undoHere({ app, card, panel }) {
  if (card?.approval.status === "applied") return card.undo();
  const done = app.store.get().approvals.get(panel.last?.id);
  if ([card?.approval, done].some((one) => one?.status === "rejected")) return app.toast("info", app.t("review.rejection_stands"));
  if (done?.status !== "applied" || done.undoneBy) return app.toast("info", app.t("review.nothing_to_undo"));
  return app.keys.until(takeBack(app, done));
}

async function takeBack(app, done) {
  try {
    take(app, [await undo(app.api, done.graphKey, done.id)]);
    const facts = { title: done.title, who: personName(app, done.asker) };
    app.toast("ok", app.t(done.asker === app.store.get().me?.userId ? "undo.done_what" : "undo.done_whose", facts));
  } catch (error) {
    app.toast("error", error.message);
  }
}
