// The review panel: what waits for a decision, what was decided, and the history of a graph with undo.

import { ApiError } from "../api.js";
import { arrange, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { kept } from "../kept.js";
import { mayAudit } from "../roles.js";
import { fromDocument, isExpired, isOpen } from "./approvals.js";
import { bookOf } from "./book.js";
import { createCard } from "./card.js";
import { createHistory } from "./history.js";
import { waitingIn, watchReviews } from "./news.js";
import { openPolicy } from "./policy.js";
import { listApprovals } from "./service.js";

const LIMIT = 200;
const SOON_MS = 100; // news that come together are looked at together
const VIEWS = ["open", "decided", "history"];

export function mountReview(app, element) {
  const { t } = app;
  const cards = new Map();
  const list = h("div.review-list");
  const history = createHistory(app);
  const panel = {
    view: "open", scope: kept.get("review.scope") ?? "graph", asker: "all", code: "", approvals: [], state: "loading",
    get isShown() {
      return app.store.get().panel === "review" && document.visibilityState !== "hidden";
    },
  };
  app.store.on("reviewView", (view) => view && (show(view), app.store.set({ reviewView: null })));
  app.store.on("reviewShown", (id) => id && show("decided"));
  app.store.on("waiting", count);
  app.store.on("panel", look);
  app.store.on("graphKey", restart);
  app.store.on((state) => `${state.me?.userId} ${state.me?.role}`, restart);
  app.store.on("lang", () => (render(), soon()));
  for (const type of ["ai:review", "open"]) app.socket.on(type, soon);
  document.addEventListener("visibilitychange", look);
  render();
  watchReviews(app);

  function restart() {
    for (const card of cards.values()) card.destroy();
    cards.clear();
    panel.approvals = [];
    panel.state = "loading";
    render();
    count();
    soon();
  }

  function soon() {
    clearTimeout(panel.timer);
    panel.timer = setTimeout(() => look(), SOON_MS);
  }

  function look() {
    if (panel.isShown && app.socket.isOpen) load();
  }

  async function load() {
    const { me, graphKey } = app.store.get();
    if (!me) return;
    if (panel.isLoading) {
      panel.isStale = true; // what is on its way may be older than the news
      return;
    }
    panel.isLoading = true;
    panel.isStale = false;
    try {
      const filter = panel.scope === "graph" && graphKey ? { graphKey } : {};
      panel.approvals = (await listApprovals(app.api, { ...filter, limit: LIMIT })).map(fromDocument);
      panel.state = "ready";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      panel.state = "failed";
      panel.error = error;
    } finally {
      panel.isLoading = false;
    }
    if (panel.isShown) refresh();
    if (panel.isStale) soon();
  }

  // Shows on the tab how many wait, also while the panel itself is not shown.
  function count() {
    const { badges, waiting, graphKey } = app.store.get();
    const review = waitingIn(waiting, panel.scope === "graph" ? graphKey : null);
    if ((badges?.review ?? 0) !== review) app.store.set({ badges: { ...badges, review } });
  }

  function render() {
    panel.tabs = h("div.segments", { role: "group", "aria-label": t("review.views") }, ...VIEWS.map((view) => tab(view)));
    panel.find = h("input.review-find", { type: "search", value: panel.code, placeholder: t("review.find"), "aria-label": t("review.find"), oninput: () => choose("code", panel.find.value) });
    replace(element, h("div.review",
      h("div.review-top", h("h2.sr-only", t("panel.review")), panel.tabs, filters()),
      panel.find, list, history.element));
    refresh();
  }

  function tab(view) {
    const count = h("span.count");
    const button = h("button", { type: "button", "aria-pressed": String(panel.view === view), onclick: () => show(view) }, t(`review.${view}`), " ", count);
    button.dataset.view = view;
    return button;
  }

  function filters() {
    const chooser = (name, values) => {
      const select = h("select", { "aria-label": t(`review.${name}`) }, ...values.map((value) => h("option", { value, selected: panel[name] === value }, t(`review.${name}.${value}`))));
      select.addEventListener("change", () => choose(name, select.value));
      return select;
    };
    const levels = mayAudit(app.store.get().me) ? h("button.icon-button", { type: "button", title: t("policy.title"), "aria-label": t("policy.title"), onclick: () => openPolicy(app) }, icon("Settings")) : "";
    return h("div.review-filters", chooser("scope", ["graph", "all"]), chooser("asker", ["all", "mine", "others"]), levels);
  }

  function choose(name, value) {
    panel[name] = value;
    if (name === "scope") {
      kept.put("review.scope", value);
      restart();
    } else refresh();
  }

  function show(view) {
    panel.view = view;
    for (const button of panel.tabs.children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    refresh();
  }

  function chosen(view) {
    const { me } = app.store.get();
    const fits = { all: () => true, mine: (one) => one.asker === me?.userId, others: (one) => one.asker !== me?.userId }[panel.asker];
    return panel.approvals.filter((one) => fits(one) && (one.spokenCode ?? "").includes(panel.code.trim().toLowerCase()) && (isOpen(one) && !isExpired(one)) === (view === "open"));
  }

  function refresh() {
    for (const button of panel.tabs?.children ?? []) {
      const n = button.dataset.view === "history" ? 0 : chosen(button.dataset.view).length;
      button.querySelector(".count").textContent = n ? String(n) : "";
    }
    panel.find.hidden = panel.view === "history" || !(panel.code || panel.approvals.some((one) => one.spokenCode));
    list.hidden = panel.view === "history";
    history.element.hidden = panel.view !== "history";
    if (panel.view === "history") history.load(panel.scope === "graph" ? app.store.get().graphKey : null);
    else renderList();
  }

  // Cards stay what they are while they are shown: what a person types in one is not lost to news.
  function renderList() {
    const shown = chosen(panel.view);
    const keep = new Set(shown.map((one) => one.id));
    for (const [id, card] of cards) {
      if (keep.has(id) || card.element.contains(document.activeElement)) continue;
      card.destroy();
      cards.delete(id);
    }
    list.querySelector(".notice-line")?.remove();
    if (!shown.length && !cards.size) {
      replace(list, emptyNotice());
      return;
    }
    for (const approval of shown) {
      if (cards.has(approval.id)) bookOf(app).put(approval);
      else cards.set(approval.id, createCard(app, approval, { siblings: () => panel.approvals, onDecided: () => soon(), onUndone: () => soon() }));
    }
    const kept = [...cards].filter(([id]) => !keep.has(id)).map(([, card]) => card.element);
    arrange(list, [...shown.map((one) => cards.get(one.id).element), ...kept]);
    const { reviewShown } = app.store.get();
    if (!keep.has(reviewShown)) return;
    app.store.set({ reviewShown: null });
    cards.get(reviewShown).focus();
  }

  function emptyNotice() {
    if (panel.state === "loading") return h("p.notice-line", { role: "status" }, t("review.loading"));
    if (panel.state === "failed") return h("div.notice-line", { role: "alert" }, h("p", panel.error.message), h("button", { type: "button", onclick: () => load() }, t("app.retry")));
    return h("div.notice-line", h("p.notice-title", t(`review.empty.${panel.view}`)), h("p.note", t(`review.empty.${panel.view}_hint`)));
  }
}
