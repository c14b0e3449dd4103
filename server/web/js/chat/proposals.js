// The proposals that an answer waits for: a card each, "approve all", and word when the last is decided.

import { h, replace } from "../dom.js";
import { isExpired, isOpen } from "../review/approvals.js";
import { decideAll } from "../review/book.js";
import { createCard } from "../review/card.js";

// Returns a group: `element`, `add(approval)`, `last()` (the approval decided last), `focus()`, `destroy()`.
//
// `onAllDecided(approval, isOurs)` is called once when none is open any more.
export function createProposals(app, { onAllDecided, onAskAgain }) {
  const cards = new Map();
  const top = h("div.proposals-top");
  const list = h("div.proposals-list");
  const group = { element: h("div.proposals", { role: "group", "aria-label": app.t("chat.proposals") }, top, list), add, focus, destroy, has: (id) => cards.has(id), approvals, isOpen: () => approvals().some(isOpen), last: null };
  let isApprovingAll = false;
  let isAnnounced = true;
  let isOurs = false;
  return group;

  function approvals() {
    return [...cards.values()].map((card) => card.approval);
  }

  function add(approval) {
    if (cards.has(approval.id)) return;
    if (isOpen(approval)) isAnnounced = false;
    const card = createCard(app, approval, {
      siblings: approvals,
      onDecided: () => ((isOurs = true), announce()),
      onChange: (changed) => changedElsewhere(changed),
      onAskAgain,
    });
    cards.set(approval.id, card);
    list.append(card.element);
    drawTop();
  }

  function changedElsewhere(approval) {
    if (isOpen(approval)) return;
    group.last = approval;
    for (const card of cards.values()) if (card.approval.dependsOn.includes(approval.id) && card.mode === "view") card.render();
    drawTop();
    if (!isApprovingAll) queueMicrotask(announce);
  }

  function announce() {
    drawTop();
    if (isAnnounced || isApprovingAll || group.isOpen()) return;
    isAnnounced = true;
    onAllDecided(group.last ?? approvals().at(-1), isOurs);
  }

  function drawTop() {
    const open = approvals().filter((one) => isOpen(one) && !isExpired(one) && !one.objection);
    if (open.length < 2) {
      replace(top);
      return;
    }
    replace(top, h("p", app.t("chat.proposals_wait", { n: open.length })),
      h("button.primary", { type: "button", disabled: isApprovingAll, onclick: approveAll }, app.t("card.approve_all", { n: open.length })));
  }

  async function approveAll() {
    isApprovingAll = isOurs = true;
    drawTop();
    try {
      await decideAll(app, approvals().filter((one) => isOpen(one) && !isExpired(one) && !one.objection), "approve");
    } finally {
      isApprovingAll = false;
      announce();
    }
  }

  function focus() {
    [...cards.values()].find((card) => isOpen(card.approval))?.focus();
  }

  function destroy() {
    for (const card of cards.values()) card.destroy();
  }
}
