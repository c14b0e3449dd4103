// The keys of the review panel: to the next and the one before, approve, reject, edit, undo, comment.

import { takesLetters } from "../keys.js";
import { personName } from "../names.js";
import { isOpen } from "./approvals.js";
import { take } from "./book.js";
import { undo } from "./service.js";

// `body` holds the rows (`list`) and the card of one of them. `ids()`: the approvals of the rows, in order; `card()`: the one
// that is shown. `panel.current`: its approval; `panel.last`: the approval that was decided last here.
export function listenForKeys(app, body, { list, ids, focusRow, card, panel }) {
  body.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !takesLetters(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const isHere = event.target.closest(".review-row, .card") || event.target === list;
    const run = KEYS[event.key.toLowerCase()] ?? (event.target.closest(".review-row") && ROW_KEYS[event.key]);
    if (!run || !isHere) return;
    const all = ids();
    run({ app, go: (at) => focusRow(all[Math.max(0, Math.min(at, all.length - 1))]), at: all.indexOf(panel.current), card: card(), panel, last: all.length - 1 });
    event.preventDefault();
  });
}

const next = ({ go, at }) => go(at + 1);
const previous = ({ go, at }) => go(at - 1);
const ROW_KEYS = { ArrowDown: next, ArrowUp: previous, Home: ({ go }) => go(0), End: ({ go, last }) => go(last) };
const KEYS = {
  j: next,
  k: previous,
  a: (here) => deciding(here, "approve", () => here.card.approve()),
  r: (here) => deciding(here, "reject", () => here.card.openRemark("reject")),
  e: (here) => deciding(here, "edit", () => here.card.openEdit()),
  c: ({ card }) => card?.comment(),
  o: ({ card }) => card?.openCode(),
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
