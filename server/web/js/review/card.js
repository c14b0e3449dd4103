/**
 * A proposed change as a card: what it does and why, where it stands, and a person's decision.
 *
 * Hover or focus draws it on the canvas. News from elsewhere reach the card through the book.
 */

import { h, replace } from "../dom.js";
import { counts, fromDocument, isOpen, ofTurn, stateOf, waitsFor } from "./approvals.js";
import { bookOf } from "./book.js";
import { renderChanges } from "./changes.js";
import { describeAction } from "./describe.js";
import { createActionForm, NotJson } from "./edit.js";
import { factsOf, outcomeOf } from "./facts.js";
import { ghostsOf } from "./ghosts.js";
import { createPin } from "./pin.js";
import * as service from "./service.js";

const ICONS = { pending: "◔", claimed: "◔", applied: "✓", edited: "✓", rejected: "✕", expired: "⌛", stale: "⚠", failed: "⚠", undone: "↶", undo: "↶" };
const DECIDERS = new Set(["editor", "reviewer", "admin"]);
let cards = 0;

/**
 * Return a card: `{element, approval, approve(), focus(), destroy()}`.
 *
 * `siblings()` gives the approvals that it may build on; `onDecided(approval)` is told of a decision
 * made here, `onChange(approval)` of any; `onAskAgain(approval)` offers to ask for it once more.
 */
export function createCard(app, approval, options = {}) {
  const card = new Card(app, approval, options);
  return card;
}

class Card {
  constructor(app, approval, options) {
    Object.assign(this, { app, t: app.t, options, mode: "view", isBusy: false });
    this.book = bookOf(app);
    this.ghosts = ghostsOf(app);
    this.approval = this.book.put(approval);
    this.pin = createPin(app, () => this.approval);
    this.id = `card-${++cards}`;
    this.title = h("h3", { class: "card-title", id: `${this.id}-title` });
    this.badge = h("span", { class: "card-state" });
    this.body = h("div", { class: "card-body" });
    this.told = h("div", { class: "card-told", role: "status" });
    this.foot = h("div", { class: "card-foot" });
    this.element = h("article", { class: "card", tabindex: "-1", "aria-labelledby": `${this.id}-title` },
      h("header", { class: "card-head" }, this.title, this.badge), this.body, this.told, this.foot);
    this.element.dataset.approval = this.approval.id;
    this.stops = [
      this.book.read(this.approval.id, (news) => this.update(news)),
      this.ghosts.watch(() => this.pin.draw()),
      app.store.on("lang", () => (this.mode === "view" ? this.render() : this.renderHead())),
      app.store.on("nodes", () => this.renderHead()),
    ];
    this.follow();
    this.render();
    this.ghosts.offer(this, this.approval);
  }

  destroy() {
    this.stops.forEach((stop) => stop());
    clearTimeout(this.timer);
    this.ghosts.drop(this, this.approval);
    this.element.remove();
  }

  follow() {
    const enter = () => isOpen(this.approval) && this.ghosts.enter(this.approval);
    const leave = () => this.ghosts.leave(this.approval);
    this.element.addEventListener("pointerenter", enter);
    this.element.addEventListener("pointerleave", leave);
    this.element.addEventListener("focusin", enter);
    this.element.addEventListener("focusout", (event) => this.element.contains(event.relatedTarget) || leave());
  }

  focus() {
    this.element.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }

  update(approval) {
    const before = stateOf(this.approval);
    this.approval = approval;
    if (stateOf(approval) !== before && !isOpen(approval)) {
      this.mode = "view";
      this.problem = "";
      this.ghosts.drop(this, approval);
    }
    this.ghosts.offer(this, approval);
    if (this.mode === "view") this.render();
    if (stateOf(approval) !== before) this.options.onChange?.(approval);
  }

  render() {
    const { approval, t } = this;
    const state = stateOf(approval);
    this.element.className = `card is-${state}`;
    this.renderHead();
    this.pin.draw();
    replace(this.badge, h("span", { "aria-hidden": "true" }, ICONS[state] ?? "•"), ` ${t(`state.${state}`)}`);
    replace(this.body, ...factsOf(this.app, approval), this.changesBox());
    this.renderTold();
    this.renderFoot(state);
    clearTimeout(this.timer);
    const left = approval.expires - Date.now();
    if (isOpen(approval) && left > 0 && left < 2 ** 31 - 1) this.timer = setTimeout(() => this.expired(), left + 50);
  }

  /** Nobody decided in time. What is being written is left until the person sends it, or not. */
  expired() {
    this.ghosts.drop(this, this.approval);
    if (this.mode === "view") this.render();
  }

  renderHead() {
    this.title.textContent = describeAction(this.app, this.approval.action, this.approval.preview);
  }

  changesBox() {
    const { approval, t } = this;
    const total = Object.values(counts(approval.preview)).reduce((sum, n) => sum + n, 0);
    if (!total) return "";
    const box = h("details", { class: "card-changes", open: this.isShown ?? (isOpen(approval) && total <= 12) },
      h("summary", {}, t("card.changes", { n: total })));
    const fill = () => {
      if (box.open && box.childElementCount === 1) box.append(renderChanges(this.app, approval.preview, { canZoom: approval.graphKey === this.app.store.get().graphKey }));
    };
    box.addEventListener("toggle", fill);
    box.firstChild.addEventListener("click", () => (this.isShown = !box.open));
    fill();
    return box;
  }

  /** Say what went wrong where the person has just acted. */
  complain(error) {
    this.problem = error.message || String(error);
    this.renderTold();
  }

  renderTold() {
    const outcome = outcomeOf(this.app, this.approval, stateOf(this.approval));
    replace(this.told, ...outcome, this.problem ? h("p", { class: "warn-text", role: "alert" }, this.problem) : "");
  }

  renderFoot(state) {
    replace(this.foot);
    const make = { pending: () => this.footPending(), applied: () => this.footApplied(), edited: () => this.footApplied(), undo: () => this.footApplied(), undone: () => this.footUndone() };
    make[state]?.();
    if (["stale", "failed", "expired"].includes(state) && this.options.onAskAgain) {
      this.foot.append(this.button("card.ask_again", "", () => this.options.onAskAgain(this.approval)));
    }
  }

  footPending() {
    const { t, app, approval } = this;
    this.pin.element.disabled = this.isBusy;
    const { me } = app.store.get();
    if (me && !DECIDERS.has(me.role)) {
      this.foot.append(h("p", { class: "note" }, t("card.viewer")), this.pin.element);
      return;
    }
    const first = waitsFor(approval, this.options.siblings?.() ?? []);
    if (first.length) {
      const titles = first.map((one) => describeAction(app, one.action, one.preview)).join(" · ");
      this.foot.append(h("p", { class: "note card-waits" }, t("card.decide_first", { title: titles })));
    }
    const approve = this.button("card.approve", "primary", () => this.approve());
    approve.disabled = first.length > 0;
    const edit = this.button("card.edit", "", () => this.openEdit());
    edit.disabled = first.length > 0;
    const remark = this.button("card.remark", "quiet", () => this.openRemark("approve"));
    remark.disabled = first.length > 0;
    this.foot.append(h("div", { class: "card-buttons" }, approve, edit, this.button("card.reject", "", () => this.openRemark("reject")), remark, this.pin.element));
  }

  footApplied() {
    const { me } = this.app.store.get();
    if (me && !DECIDERS.has(me.role)) return;
    const { approval } = this;
    const all = approval.undoes ? [] : ofTurn(approval, this.options.siblings?.() ?? []);
    this.foot.append(h("div", { class: "card-buttons" }, this.button(approval.undoes ? "card.redo" : "card.undo", "", () => this.undo()),
      all.length > 1 ? h("button", { type: "button", disabled: this.isBusy, onclick: () => this.undoTurn(all) }, this.t("card.undo_turn", { n: all.length })) : ""));
  }

  footUndone() {
    const { me } = this.app.store.get();
    if (me && !DECIDERS.has(me.role)) return;
    this.foot.append(h("div", { class: "card-buttons" }, this.button("card.redo", "", () => this.redo())));
  }

  button(key, kind, fn) {
    return h("button", { type: "button", class: kind, onclick: fn, disabled: this.isBusy }, this.t(key));
  }

  openEdit() {
    this.mode = "edit";
    const form = createActionForm(this.app, this.approval.action, this.approval.preview);
    const send = h("button", { type: "submit", class: "primary" }, this.t("card.approve_edited"));
    const remark = this.remarkField("card.remark_label");
    const element = h("form", { class: "card-form", onsubmit: (event) => (event.preventDefault(), this.sendEdit(form, remark.read())) },
      form.element, remark.element, h("div", { class: "card-buttons" }, send, this.button("card.cancel", "", () => this.closeForm())));
    this.openForm(element, form);
  }

  /** Let the person say why before they decide; the assistant reads it. `verdict`: approve or reject. */
  openRemark(verdict) {
    this.mode = "remark";
    const isApproval = verdict === "approve";
    const remark = this.remarkField(isApproval ? "card.remark_label" : "card.feedback");
    const send = () => (isApproval ? this.approve(remark.read()) : this.reject(remark.read()));
    const element = h("form", { class: "card-form", onsubmit: (event) => (event.preventDefault(), send()) }, remark.element,
      h("div", { class: "card-buttons" }, h("button", { type: "submit", class: isApproval ? "primary" : "danger" }, this.t(isApproval ? "card.approve" : "card.reject_now")), this.button("card.cancel", "", () => this.closeForm())));
    this.openForm(element, remark);
  }

  remarkField(label) {
    const field = h("textarea", { rows: "3", maxlength: "4000", id: `${this.id}-remark`, placeholder: this.t("card.feedback_hint") });
    return { element: h("div", { class: "edit-field" }, h("label", { for: field.id }, this.t(label)), field), read: () => field.value.trim(), focus: () => field.focus() };
  }

  openForm(element, target) {
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.closeForm();
    });
    this.problem = "";
    this.renderTold();
    replace(this.foot, element);
    const changes = this.body.querySelector(".card-changes");
    if (changes && this.mode === "edit") changes.open = false; // the form shows the new values
    element.scrollIntoView({ block: "nearest" });
    target.focus();
  }

  closeForm() {
    this.mode = "view";
    this.render();
    this.focus();
  }

  async sendEdit(form, feedback) {
    let action;
    try {
      action = form.read();
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
      form.show([], this.t("edit.not_json"));
      return;
    }
    form.show([]);
    await this.decide(() => service.approve(this.app.api, this.approval.id, { editedAction: action, feedback }), (error) => {
      form.show(Array.isArray(error.details) ? error.details : [], error.message);
    });
  }

  approve(feedback) {
    return this.decide(() => service.approve(this.app.api, this.approval.id, { feedback }));
  }

  reject(feedback) {
    return this.decide(() => service.reject(this.app.api, this.approval.id, feedback));
  }

  /** Send a decision once; return whether it was taken. What was decided elsewhere meanwhile is shown. */
  async decide(send, onRefused = (error) => this.complain(error)) {
    if (this.isBusy) return false;
    this.problem = "";
    this.setBusy(true);
    try {
      const decided = fromDocument(await send());
      this.mode = "view";
      this.setBusy(false);
      this.book.put(decided);
      this.app.canvas.markDone(decided);
      this.focus();
      this.options.onDecided?.(decided);
      return true;
    } catch (error) {
      this.setBusy(false);
      if (error.name !== "ApiError") throw error;
      await this.refused(error, onRefused);
      return false;
    }
  }

  async refused(error, onRefused) {
    const isUnsure = [404, 409, 410].includes(error.status) || ["network", "timeout"].includes(error.code);
    if (isUnsure) await this.lookAgain(); // it may have been decided, by this very request too
    if (isOpen(this.approval) && this.mode !== "view") onRefused(error);
    else this.complain(error);
  }

  async lookAgain(id = this.approval.id) {
    try {
      this.book.put(fromDocument(await service.getApproval(this.app.api, id)));
    } catch (error) {
      if (error.name !== "ApiError") throw error; // what was refused is told already
    }
  }

  setBusy(isBusy) {
    this.isBusy = isBusy;
    this.element.setAttribute("aria-busy", String(isBusy));
    for (const button of this.foot.querySelectorAll("button")) button.disabled = isBusy;
    if (!isBusy && this.mode === "view") this.renderFoot(stateOf(this.approval));
  }

  async undo() {
    const title = describeAction(this.app, this.approval.action, this.approval.preview);
    const isSure = await this.app.confirm({ title: this.t("undo.title"), text: this.t("undo.text", { title, list: this.undoList() }), ok: this.t("undo.yes") });
    if (isSure) await this.takeBack(this.approval.id);
  }

  async undoTurn(all) {
    const list = h("ul", {}, ...all.map((one) => h("li", {}, describeAction(this.app, one.action, one.preview))));
    const isSure = await this.app.confirm({ title: this.t("undo.turn_title"), text: this.t("undo.turn_text", { n: all.length }), details: list, ok: this.t("undo.yes") });
    if (isSure) await this.takeBack(this.approval.id, { turn: true });
  }

  redo() {
    return this.takeBack(this.approval.undoneBy);
  }

  async takeBack(id, { turn = false } = {}) {
    this.problem = "";
    this.setBusy(true);
    try {
      const made = fromDocument(await service.undo(this.app.api, this.approval.graphKey, id, { turn }));
      this.book.put(made);
      this.app.toast("ok", this.t(id === this.approval.id ? "undo.done" : "undo.redone"));
      this.setBusy(false);
      await Promise.all([this.approval.id, made.undoes, ...made.undoesAlso].filter(Boolean).map((one) => this.lookAgain(one)));
      this.options.onUndone?.(made);
    } catch (error) {
      this.setBusy(false);
      if (error.name !== "ApiError") throw error;
      this.complain(error);
    }
  }

  /** What an undo takes back, in words. */
  undoList() {
    const names = counts(this.approval.preview);
    return Object.entries(names).map(([kind, n]) => this.t(`undo.${kind}`, { n })).join(", ");
  }
}
