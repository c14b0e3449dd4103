// A proposed change as a card: what it does and why, where it stands, and a person's decision.
//
// Hover or focus draws it on the canvas. News from elsewhere reach the card through the store.

import { ApiError } from "../api.js";
import { h, keepFocus, replace } from "../dom.js";
import { createMoreMenu } from "../more-menu.js";
import { nameOf } from "../names.js";
import { mayEdit } from "../roles.js";
import { counts, isOpen, ofTurn, stateOf, waitsFor } from "./approvals.js";
import { readApproval, take } from "./book.js";
import { isInTitle, onlyChange, renderChanges } from "./changes.js";
import { createDiscussion } from "./discussion.js";
import { createActionForm, NotJson } from "./edit.js";
import { factsOf, outcomeOf } from "./facts.js";
import { ghostsOf } from "./ghosts.js";
import { createPin } from "./pin.js";
import * as service from "./service.js";

const ICONS = { pending: "◔", applied: "✓", edited: "✓", rejected: "✕", expired: "⌛", stale: "⚠", failed: "⚠", undone: "↶", undo: "↶" };
let cards = 0;

// Returns a card of an approval of the store: `{element, approval, focus(), destroy()}`, and what its buttons do.
//
// `siblings()` gives the approvals that it may build on; `onDecided(approval)` is called after a decision
// made here, `onChange(approval)` after any; `onAskAgain(approval)` offers to ask for it once more.
export function createCard(app, approval, options = {}) {
  const { t } = app;
  const ghosts = ghostsOf(app);
  const id = `card-${++cards}`;
  const title = h("h3.card-title", { id: `${id}-title` });
  const badge = h("span.card-state");
  const body = h("div.card-body");
  const outcomeBox = h("div.card-outcome", { role: "status" });
  const foot = h("div.card-foot");
  const card = { approval, mode: "view", isBusy: false };
  const discussion = createDiscussion(app, () => card.approval);
  const element = h("article.card", { tabindex: "-1", "aria-labelledby": title.id, dataset: { approval: approval.id } }, h("header.card-head", title, badge), body, outcomeBox, foot, discussion.element);
  Object.assign(card, { element, destroy, focus, render, approve, openEdit, openRemark, openCode, undo, obstacle, comment: discussion.open, hasDraft: () => card.mode !== "view" || discussion.hasDraft() });
  // Of a long list this one came without what it changes: nobody decides what they were not shown.
  const isWhole = () => !card.approval.shortened;
  const pin = createPin(app, () => card.approval);
  const redraw = () => (card.mode === "view" ? render() : renderHead());
  const stops = [
    app.store.on((state) => state.approvals.get(approval.id), (news) => news && update(news)),
    app.store.on("conflicts", () => isOpen(card.approval) && redraw()),
    ghosts.watch(pin.draw),
    ...["lang", "names"].map((part) => app.store.on(part, redraw)),
  ];
  follow();
  render();
  ghosts.offer(card, card.approval);
  if (!isWhole() && isOpen(approval)) lookAgain();
  return card;

  function destroy() {
    stops.forEach((stop) => stop());
    clearTimeout(card.timer);
    ghosts.drop(card, card.approval);
    element.remove();
  }

  function follow() {
    const enter = () => isOpen(card.approval) && ghosts.enter(card.approval);
    const leave = () => ghosts.leave(card.approval);
    element.addEventListener("pointerenter", enter);
    element.addEventListener("pointerleave", leave);
    element.addEventListener("focusin", enter);
    element.addEventListener("focusout", (event) => element.contains(event.relatedTarget) || leave());
  }

  function focus() {
    element.focus({ preventScroll: true });
    element.scrollIntoView({ block: "nearest" });
  }

  // Where somebody else has decided meanwhile, what was being written becomes a comment that may be sent.
  function update(approval) {
    const before = stateOf(card.approval);
    card.approval = approval;
    if (stateOf(approval) !== before && !isOpen(approval)) {
      if (!card.isBusy) discussion.keep(foot.querySelector(`#${id}-remark`)?.value.trim() ?? "");
      card.mode = "view";
      card.problem = "";
      ghosts.drop(card, approval);
    }
    ghosts.offer(card, approval);
    if (card.mode === "view") render();
    else discussion.draw();
    if (stateOf(approval) !== before) options.onChange?.(approval);
  }

  function render() {
    keepFocus(element, draw);
  }

  function draw() {
    const { approval } = card;
    const state = stateOf(approval);
    element.className = isInTitle(approval.title, approval.preview) && isWhole() ? `card is-${state} is-said` : `card is-${state}`;
    renderHead();
    pin.draw();
    discussion.draw();
    replace(badge, h("span", { "aria-hidden": "true" }, ICONS[state] ?? "•"), ` ${t(`state.${state}`)}`);
    replace(body, ...factsOf(app, approval), changesBox());
    renderOutcome();
    renderFoot(state);
    clearTimeout(card.timer);
    const left = approval.expires - Date.now();
    if (isOpen(approval) && left > 0 && left < 2 ** 31 - 1) card.timer = setTimeout(() => expired(), left + 50);
  }

  // Nobody decided in time. What is being written is left until the person sends it, or not.
  function expired() {
    ghosts.drop(card, card.approval);
    if (card.mode === "view") render();
  }

  function renderHead() {
    title.textContent = card.approval.title;
  }

  function changesBox() {
    const { approval } = card;
    const total = Object.values(counts(approval.preview)).reduce((sum, n) => sum + n, 0);
    if (!isWhole()) {
      return h("details.card-changes", { ontoggle: () => lookAgain() }, h("summary", t("card.show_changes")));
    }
    if (!total) return "";
    const shown = () => renderChanges(app, approval.preview, { canZoom: approval.graphKey === app.store.get().graphKey, title: approval.title, onCode: openCode });
    if (onlyChange(approval.preview)) return h("div.card-changes", shown());
    const box = h("details.card-changes", { open: card.isShown ?? (isOpen(approval) && total <= 12) },
      h("summary", t("card.changes", { n: total })));
    const fill = () => {
      if (box.open && box.childElementCount === 1) box.append(shown());
    };
    box.addEventListener("toggle", fill);
    box.firstChild.addEventListener("click", () => (card.isShown = !box.open));
    fill();
    return box;
  }

  // Says what went wrong where the person has just acted.
  function complain(error) {
    card.problem = error.message || String(error);
    renderOutcome();
  }

  function renderOutcome() {
    const outcome = outcomeOf(app, card.approval, stateOf(card.approval));
    replace(outcomeBox, ...outcome, card.problem ? h("p.warn-text", { role: "alert" }, card.problem) : "");
  }

  function renderFoot(state) {
    replace(foot);
    ({ pending: footPending, applied: footApplied, edited: footApplied, undo: footApplied, undone: footUndone })[state]?.();
    if (["stale", "failed", "expired"].includes(state) && options.onAskAgain) {
      foot.append(button("card.ask_again", "", () => options.onAskAgain(card.approval)));
    }
  }

  // Returns why this person cannot do something with it now, or "". `what`: approve, edit or reject.
  function obstacle(what) {
    const { approval } = card;
    if (stateOf(approval) !== "pending") return t("card.not_open", { title: approval.title, state: t(`state.${stateOf(approval)}`) });
    if (approval.objection) return approval.objection;
    const first = what === "reject" ? [] : waitsFor(approval, options.siblings?.() ?? []);
    if (first.length) return t("card.decide_first", { title: first.map((one) => one.title).join(" · ") });
    return isWhole() ? "" : t("card.not_read");
  }

  function footPending() {
    pin.element.disabled = card.isBusy;
    if (card.approval.objection) {
      foot.append(h("p.note", card.approval.objection), pin.element);
      return;
    }
    const first = waitsFor(card.approval, options.siblings?.() ?? []);
    const isLater = first.length > 0 || !isWhole();
    if (first.length) foot.append(h("p.note.card-waits", t("card.decide_first", { title: first.map((one) => one.title).join(" · ") })));
    foot.append(h("div.card-buttons",
      button("card.approve", "primary", () => approve(), isLater), button("card.reject", "", () => openRemark("reject")),
      createMoreMenu(t("card.more"), [button("card.edit", "", openEdit, isLater), button("card.remark", "", () => openRemark("approve"), isLater), pin.element])));
  }

  function footApplied() {
    if (!mayEdit(app.store.get().me)) return;
    const { approval } = card;
    const all = approval.undoes ? [] : ofTurn(approval, options.siblings?.() ?? []);
    foot.append(h("div.card-buttons", button(approval.undoes ? "card.redo" : "card.undo", "", () => undo()),
      all.length > 1 ? h("button", { type: "button", disabled: card.isBusy, onclick: () => undoTurn(all) }, t("card.undo_turn", { n: all.length })) : ""));
  }

  function footUndone() {
    if (mayEdit(app.store.get().me)) foot.append(h("div.card-buttons", button("card.redo", "", redo)));
  }

  function button(key, kind, fn, isOff = false) {
    return h("button", { type: "button", class: kind, onclick: fn, disabled: card.isBusy || isOff }, t(key));
  }

  // Shows its code over the whole page, where it has some.
  async function openCode() {
    const { hasCode, openCode: open } = await app.keys.until(import("./code-view.js"));
    if (isWhole() && hasCode(card.approval)) open(app, card);
  }

  function openEdit() {
    const form = createActionForm(app, card.approval.action, card.approval.preview);
    const remark = remarkField("card.remark_label");
    openForm("edit", { fields: [form, remark], label: "card.approve_edited", kind: "primary", send: () => sendEdit(form, remark.read()) });
  }

  // Lets the person say why before they decide; the assistant reads it. `verdict`: approve or reject.
  function openRemark(verdict) {
    const isApproval = verdict === "approve";
    const remark = remarkField(isApproval ? "card.remark_label" : "card.feedback");
    const send = () => (isApproval ? approve(remark.read()) : reject(remark.read()));
    openForm("remark", { fields: [remark], label: isApproval ? "card.approve" : "card.reject_now", kind: isApproval ? "primary" : "danger", send });
  }

  function remarkField(label) {
    const field = h("textarea", { rows: "3", maxlength: "4000", id: `${id}-remark`, placeholder: t("card.feedback_hint") });
    return { element: h("div.edit-field", h("label", { for: field.id }, t(label)), field), read: () => field.value.trim(), focus: () => field.focus() };
  }

  function openForm(mode, { fields, label, kind, send }) {
    const form = h("form.card-form", { onsubmit: (event) => (event.preventDefault(), send()), onkeydown: (event) => {
      const isSent = event.key === "Enter" && (event.ctrlKey || event.metaKey || (mode === "remark" && !event.shiftKey && event.target.tagName === "TEXTAREA"));
      if (event.key !== "Escape" && (!isSent || event.isComposing)) return;
      event.stopPropagation();
      event.preventDefault();
      if (isSent) form.requestSubmit();
      else closeForm();
    } }, fields.map((field) => field.element),
      h("div.card-buttons", h("button", { type: "submit", class: kind }, t(label)), button("card.cancel", "", closeForm)));
    card.mode = mode;
    card.problem = "";
    renderOutcome();
    replace(foot, form);
    const changes = body.querySelector(".card-changes");
    if (changes && mode === "edit") changes.open = false; // the form shows the new values
    form.scrollIntoView({ block: "nearest" });
    fields[0].focus();
  }

  function closeForm() {
    card.mode = "view";
    render();
    focus();
  }

  async function sendEdit(form, feedback) {
    if (card.isBusy) return;
    let action;
    try {
      action = form.read();
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
      form.show([], t("edit.not_json"));
      return;
    }
    const broken = await app.keys.until(brokenCode(action));
    if (broken) return form.show([], broken);
    form.show([]);
    decide(() => service.approve(app.api, card.approval.id, { editedAction: action, feedback }), (error) => {
      form.show(Array.isArray(error.details) ? error.details : [], error.message);
    });
  }

  // Says once of an edit which code cannot be parsed; sent again as it is, it is approved.
  async function brokenCode(action) {
    const text = JSON.stringify(action);
    if (card.warnedOf === text) return "";
    setBusy(true);
    try {
      const { codeErrors } = await service.checkCode(app.api, card.approval.id, action);
      card.warnedOf = text;
      return codeErrors.map(({ key, line }) => t("edit.code_broken", { node: nameOf(app, key, card.approval.preview), line })).join(" ");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return ""; // what is wrong with the rest is said by the decision
    } finally {
      setBusy(false);
    }
  }

  function approve(feedback) {
    decide(() => service.approve(app.api, card.approval.id, { feedback }));
  }

  function reject(feedback) {
    decide(() => service.reject(app.api, card.approval.id, feedback));
  }

  // Sends a decision once; what was decided elsewhere meanwhile is shown. Keys wait for the answer.
  function decide(send, onRefused = complain) {
    if (card.isBusy || !isWhole()) return;
    card.problem = "";
    setBusy(true);
    app.keys.until(sendDecision(send, onRefused));
  }

  async function sendDecision(send, onRefused) {
    try {
      const [decided] = take(app, [await send()]);
      card.mode = "view";
      setBusy(false);
      app.canvas.markDone(decided);
      focus();
      options.onDecided?.(decided);
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ApiError)) throw error;
      await refused(error, onRefused);
    }
  }

  async function refused(error, onRefused) {
    const isUnsure = [404, 409, 410].includes(error.status) || ["network", "timeout"].includes(error.code);
    if (isUnsure) await lookAgain(); // it may have been decided, by this very request too
    if (isOpen(card.approval) && card.mode !== "view") onRefused(error);
    else complain(error);
  }

  async function lookAgain(id = card.approval.id) {
    try {
      await readApproval(app, id);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // what was refused is shown already
    }
  }

  function setBusy(isBusy) {
    card.isBusy = isBusy;
    element.setAttribute("aria-busy", String(isBusy));
    for (const button of foot.querySelectorAll("button")) button.disabled = isBusy;
    if (!isBusy && card.mode === "view") renderFoot(stateOf(card.approval));
  }

  async function undo({ isSure = false } = {}) {
    const title = card.approval.title;
    if (isSure || (await app.confirm({ title: t("undo.title"), text: t("undo.text", { title, list: undoList() }), ok: t("undo.yes") }))) await takeBack(card.approval.id);
  }

  async function undoTurn(all) {
    const list = h("ul", ...all.map((one) => h("li", one.title)));
    const isSure = await app.confirm({ title: t("undo.turn_title"), text: t("undo.turn_text", { n: all.length }), details: list, ok: t("undo.yes") });
    if (isSure) await takeBack(card.approval.id, { turn: true });
  }

  function redo() {
    return takeBack(card.approval.undoneBy);
  }

  function takeBack(id, { turn = false } = {}) {
    card.problem = "";
    setBusy(true);
    return app.keys.until(takenBack(id, turn));
  }

  async function takenBack(id, turn) {
    try {
      const [made] = take(app, [await service.undo(app.api, card.approval.graphKey, id, { turn })]);
      app.toast("ok", t(id === card.approval.id ? "undo.done" : "undo.redone"));
      setBusy(false);
      await Promise.all([card.approval.id, made.undoes, ...made.undoesAlso].filter(Boolean).map((one) => lookAgain(one)));
      options.onUndone?.(made);
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ApiError)) throw error;
      complain(error);
    }
  }

  // What an undo takes back, in words.
  function undoList() {
    const names = counts(card.approval.preview);
    return Object.entries(names).map(([kind, n]) => t(`undo.${kind}`, { n })).join(", ");
  }
}
