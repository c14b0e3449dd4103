// The one card beside the rows of the review panel.

import { h, replace } from "../dom.js";
import { createCard } from "./card.js";

// Returns `element`, `show(approval)` (null: nothing), `card()`, and `clear()`, which forgets also what was being written.
export function createDetail(app, options) {
  const element = h("div.review-detail");
  const drafts = new Map(); // approval id -> the card in which somebody was writing when another was chosen
  let card = null;
  return { element, show, card: () => card, clear };

  function show(approval) {
    if (card?.approval.id === approval?.id) return;
    const before = card;
    card = approval ? drafts.get(approval.id) ?? createCard(app, approval, options) : null;
    drafts.delete(approval?.id);
    replace(element, card?.element ?? "");
    element.scrollTop = 0;
    if (before?.hasDraft()) drafts.set(before.approval.id, before);
    else before?.destroy();
  }

  function clear() {
    for (const one of [card, ...drafts.values()]) one?.destroy();
    drafts.clear();
    card = null;
  }
}
