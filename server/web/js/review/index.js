/**
 * The review panel: what waits for a decision, what was decided, and the history of a graph with undo.
 */

import { arrange, h, replace } from "../dom.js";
import { addMessages } from "../i18n.js";
import { kept } from "../kept.js";
import reviewEn from "../messages/review.en.js";
import reviewFr from "../messages/review.fr.js";
import { fromDocument, isExpired, isOpen } from "./approvals.js";
import { createCard } from "./card.js";
import { createHistory } from "./history.js";
import { waitingIn, watchReviews } from "./news.js";
import { listApprovals } from "./service.js";

addMessages({ en: reviewEn, fr: reviewFr });

const LIMIT = 200;
const SOON_MS = 100; // news that come together are looked at together
const VIEWS = ["open", "decided", "history"];

export function mountReview(app, element) {
  const panel = new ReviewPanel(app, element);
  panel.render();
  watchReviews(app);
  return panel;
}

class ReviewPanel {
  constructor(app, element) {
    Object.assign(this, { app, t: app.t, element, view: "open", scope: kept.get("review.scope") ?? "graph", asker: "all" });
    this.approvals = [];
    this.cards = new Map();
    this.state = "loading";
    app.store.on("reviewView", (view) => view && (this.show(view), app.store.set({ reviewView: null })));
    app.store.on("reviewShown", (id) => id && this.show("decided"));
    app.store.on("waiting", () => this.count());
    this.list = h("div", { class: "review-list" });
    this.history = createHistory(app);
    app.store.on("panel", () => this.look());
    app.store.on("graphKey", () => this.restart());
    app.store.on((state) => state.me?.userId, () => this.restart());
    app.store.on("lang", () => this.render());
    for (const type of ["ai:review", "open"]) app.socket.on(type, () => this.soon());
    document.addEventListener("visibilitychange", () => this.look());
  }

  get isShown() {
    return this.app.store.get().panel === "review" && document.visibilityState !== "hidden";
  }

  restart() {
    for (const card of this.cards.values()) card.destroy();
    this.cards.clear();
    this.approvals = [];
    this.state = "loading";
    this.render();
    this.count();
    this.soon();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), SOON_MS);
  }

  look() {
    if (this.isShown && this.app.socket.isOpen) this.load();
  }

  async load() {
    const { me, graphKey } = this.app.store.get();
    if (!me) return;
    if (this.isLoading) {
      this.isStale = true; // what is on its way may be older than the news
      return;
    }
    this.isLoading = true;
    this.isStale = false;
    try {
      const filter = this.scope === "graph" && graphKey ? { graphKey } : {};
      this.approvals = (await listApprovals(this.app.api, { ...filter, limit: LIMIT })).map(fromDocument);
      this.state = "ready";
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      this.state = "failed";
      this.error = error;
    } finally {
      this.isLoading = false;
    }
    if (this.isShown) this.refresh();
    if (this.isStale) this.soon();
  }

  /** Show on the tab how many wait, also while the panel itself is not shown. */
  count() {
    const { badges, waiting, graphKey } = this.app.store.get();
    const review = waitingIn(waiting, this.scope === "graph" ? graphKey : null);
    if ((badges?.review ?? 0) !== review) this.app.store.set({ badges: { ...badges, review } });
  }

  render() {
    const { t } = this;
    this.tabs = h("div", { class: "segments", role: "group", "aria-label": t("review.views") }, ...VIEWS.map((view) => this.tab(view)));
    replace(this.element, h("div", { class: "review" },
      h("div", { class: "review-top" }, h("h2", { class: "sr-only" }, t("panel.review")), this.tabs, this.filters()),
      this.list, this.history.element));
    this.refresh();
  }

  tab(view) {
    const count = h("span", { class: "count" });
    const button = h("button", { type: "button", "aria-pressed": String(this.view === view), onclick: () => this.show(view) }, this.t(`review.${view}`), " ", count);
    button.dataset.view = view;
    return button;
  }

  filters() {
    const { t } = this;
    const choose = (name, values) => {
      const select = h("select", { "aria-label": t(`review.${name}`) }, ...values.map((value) => h("option", { value, selected: this[name] === value }, t(`review.${name}.${value}`))));
      select.addEventListener("change", () => this.choose(name, select.value));
      return select;
    };
    return h("div", { class: "review-filters" }, choose("scope", ["graph", "all"]), choose("asker", ["all", "mine", "others"]));
  }

  choose(name, value) {
    this[name] = value;
    if (name === "scope") {
      kept.put("review.scope", value);
      this.restart();
    } else this.refresh();
  }

  show(view) {
    this.view = view;
    for (const button of this.tabs.children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    this.refresh();
  }

  chosen(view) {
    const { me } = this.app.store.get();
    const fits = { all: () => true, mine: (one) => one.asker === me?.userId, others: (one) => one.asker !== me?.userId }[this.asker];
    return this.approvals.filter((one) => fits(one) && (isOpen(one) && !isExpired(one)) === (view === "open"));
  }

  refresh() {
    for (const button of this.tabs?.children ?? []) {
      const n = button.dataset.view === "history" ? 0 : this.chosen(button.dataset.view).length;
      button.querySelector(".count").textContent = n ? String(n) : "";
    }
    this.list.hidden = this.view === "history";
    this.history.element.hidden = this.view !== "history";
    if (this.view === "history") this.history.load(this.scope === "graph" ? this.app.store.get().graphKey : null);
    else this.renderList();
  }

  /** Cards stay what they are while they are shown: what a person types in one is not lost to news. */
  renderList() {
    const shown = this.chosen(this.view);
    const keep = new Set(shown.map((one) => one.id));
    for (const [id, card] of this.cards) {
      if (keep.has(id) || card.element.contains(document.activeElement)) continue;
      card.destroy();
      this.cards.delete(id);
    }
    this.list.querySelector(".notice-line")?.remove();
    if (!shown.length && !this.cards.size) {
      replace(this.list, this.emptyNotice());
      return;
    }
    for (const approval of shown) {
      if (this.cards.has(approval.id)) this.cards.get(approval.id).book.put(approval);
      else this.cards.set(approval.id, createCard(this.app, approval, { siblings: () => this.approvals, onDecided: () => this.soon(), onUndone: () => this.soon() }));
    }
    const kept = [...this.cards].filter(([id]) => !keep.has(id)).map(([, card]) => card.element);
    arrange(this.list, [...shown.map((one) => this.cards.get(one.id).element), ...kept]);
    const { reviewShown } = this.app.store.get();
    if (!keep.has(reviewShown)) return;
    this.app.store.set({ reviewShown: null });
    this.cards.get(reviewShown).focus();
  }

  emptyNotice() {
    const { t } = this;
    if (this.state === "loading") return h("p", { class: "notice-line", role: "status" }, t("review.loading"));
    if (this.state === "failed") return h("div", { class: "notice-line", role: "alert" }, h("p", {}, this.error.message), h("button", { type: "button", onclick: () => this.load() }, t("app.retry")));
    return h("div", { class: "notice-line" }, h("p", { class: "notice-title" }, t(`review.empty.${this.view}`)), h("p", { class: "note" }, t(`review.empty.${this.view}_hint`)));
  }
}
