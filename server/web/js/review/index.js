// The review panel: what waits for a decision, what became of one's own, what was decided, and a graph's history with undo.

import { ApiError } from "../api.js";
import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { isTyping } from "../key-queue.js";
import { kept } from "../kept.js";
import { mayAudit } from "../roles.js";
import { isExpired, isOpen } from "./approvals.js";
import { readApproval } from "./book.js";
import { createCard } from "./card.js";
import { ghostsOf } from "./ghosts.js";
import { createGroupHead } from "./group-head.js";
import { GROUPINGS, groupsOf } from "./groups.js";
import { createHistory } from "./history.js";
import { listenForKeys } from "./keys.js";
import { timeOf } from "./lines.js";

const SOON_MS = 100; // news that come together are shown together
const VIEWS = ["open", "inbox", "decided", "history"];

export function mountReview(app, element) {
  const { t, store } = app;
  const cards = new Map();
  const list = h("div.review-list", { tabIndex: -1 });
  const drawList = createParts(list);
  const said = h("p.review-said", { role: "status" });
  const history = createHistory(app);
  const panel = {
    view: "open", scope: kept.get("review.scope") ?? "graph", group: kept.get("review.group") ?? "answer", code: "", listed: null, last: null, state: "loading",
    get isShown() {
      return store.get().panel === "review" && document.visibilityState !== "hidden";
    },
  };
  const { reviews } = app;
  const ghosts = ghostsOf(app);
  reviews.wanted = () => (panel.isShown && panel.view !== "history" ? filter() : null);
  const headOf = createGroupHead(app, { onDecided: decidedHere });
  store.on("reviewView", (view) => view && (show(view), store.set({ reviewView: null })));
  store.on("reviewShown", (id) => id && showOne(id));
  for (const part of ["approvals", "names"]) store.on(part, soon);
  store.on("panel", opened);
  store.on("graphKey", restart);
  store.on((state) => `${state.me?.userId} ${state.me?.role}`, restart);
  store.on("lang", restart); // titles come in the language of who asks
  app.socket.on("open", look);
  document.addEventListener("visibilitychange", look);
  listenForKeys(app, list, { cards: cardsInOrder, panel });
  render();
  opened();

  // Opens on the card on top; who goes along the tabs by arrow keys stays there.
  function opened() {
    panel.isOpening = panel.isShown && !document.activeElement?.matches("[role=tab]:focus-visible");
    if (panel.isShown) look();
    else ghosts.putOnTop(null);
  }

  function land() {
    if (!panel.isOpening || panel.state === "loading") return;
    panel.isOpening = false;
    const isBusy = element.contains(document.activeElement) || document.querySelector("dialog[open]") || (isTyping(document.activeElement) && document.activeElement.checkVisibility());
    if (!isBusy && panel.view === "open") cardsInOrder()[0]?.focus();
  }

  function restart() {
    for (const card of cards.values()) card.destroy();
    cards.clear();
    panel.listed = panel.last = null;
    render();
    reviews.count();
    look();
  }

  function soon() {
    clearTimeout(panel.timer);
    panel.timer = setTimeout(() => panel.isShown && refresh(), SOON_MS);
  }

  function filter() {
    const { me, graphKey } = store.get();
    return { graphKey: panel.scope === "graph" ? graphKey : undefined, asker: panel.view === "inbox" ? me?.userId : undefined };
  }

  // Reads the list once for each of its filters; from then on the server's news keep it.
  async function look() {
    if (!panel.isShown || !store.get().me) return;
    const wanted = JSON.stringify(filter());
    if (panel.listed !== wanted) {
      panel.listed = wanted;
      panel.state = "loading";
      try {
        await reviews.load();
        panel.state = "ready";
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        Object.assign(panel, { state: "failed", error, listed: null });
      }
    }
    if (panel.isShown) refresh();
  }

  function render() {
    panel.tabs = h("div.segments", { role: "group", "aria-label": t("review.views") }, ...VIEWS.map((view) => tab(view)));
    panel.find = h("input.review-find", { type: "search", value: panel.code, placeholder: t("review.find"), "aria-label": t("review.find"), oninput: () => choose("code", panel.find.value) });
    replace(element, h("div.review",
      h("div.review-top", h("h2.sr-only", t("panel.review")), panel.tabs, filters(), said),
      panel.find, list, history.element));
    refresh();
  }

  function tab(view) {
    const button = h("button", { type: "button", "aria-pressed": String(panel.view === view), onclick: () => show(view) }, t(`review.${view}`), " ", h("span.count"));
    button.dataset.view = view;
    return button;
  }

  function filters() {
    const chooser = (name, values) => {
      const select = h("select", { "aria-label": t(`review.${name}`) }, ...values.map((value) => h("option", { value, selected: panel[name] === value }, t(`review.${name}.${value}`))));
      select.addEventListener("change", () => choose(name, select.value));
      return select;
    };
    const levels = mayAudit(store.get().me) ? h("button.icon-button", { type: "button", title: t("policy.title"), "aria-label": t("policy.title"), onclick: async () => (await import("./policy.js")).openPolicy(app) }, icon("Settings")) : "";
    return h("div.review-filters", chooser("scope", ["graph", "all"]), chooser("group", GROUPINGS), levels);
  }

  function choose(name, value) {
    panel[name] = value;
    if (name !== "code") kept.put(`review.${name}`, value);
    if (name === "scope") restart();
    else refresh();
  }

  function show(view) {
    panel.view = view;
    for (const button of panel.tabs.children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    refresh();
    look();
  }

  // Shows the card of one approval, which may be older than what is listed, or be none.
  async function showOne(id) {
    try {
      const one = store.get().approvals.get(id) ?? (await readApproval(app, id));
      show(isOpen(one) && !isExpired(one) ? "open" : "decided");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      store.set({ reviewShown: null });
      app.toast("error", error.message);
    }
  }

  // The approvals of a view: what waits oldest first, so that nothing moves under a hand, the rest by when it ended.
  function chosen(view) {
    const { me, approvals, graphKey } = store.get();
    const code = panel.code.trim().toLowerCase();
    const waits = (one) => isOpen(one) && !isExpired(one);
    const fits = { open: waits, inbox: (one) => !waits(one) && one.asker === me?.userId && !one.undoes, decided: (one) => !waits(one), history: () => false }[view];
    const found = [...approvals.values()].filter((one) => fits(one) && (panel.scope === "all" || !graphKey || one.graphKey === graphKey) && (one.spokenCode ?? "").includes(code));
    return view === "open" ? groupsOf(found, panel.group).flatMap((group) => group.approvals) : found.toSorted((one, other) => timeOf(other) - timeOf(one));
  }

  // How many a tab names: those that this person may decide, of one's own those that somebody else decided since.
  function unseen(view) {
    if (view === "open") return chosen(view).filter((one) => !one.objection).length;
    if (view !== "inbox") return chosen(view).length;
    const since = Number(kept.get("review.inbox") ?? 0);
    return chosen(view).filter((one) => timeOf(one) > since && one.decision?.by !== store.get().me?.userId).length;
  }

  function refresh() {
    if (panel.view === "inbox" && panel.isShown) kept.put("review.inbox", String(Date.now()));
    for (const button of panel.tabs?.children ?? []) button.querySelector(".count").textContent = unseen(button.dataset.view) || "";
    panel.find.hidden = panel.view === "history" || !(panel.code || chosen(panel.view).some((one) => one.spokenCode));
    list.hidden = panel.view === "history";
    history.element.hidden = panel.view !== "history";
    if (panel.view !== "history") renderList();
    else if (panel.isShown) history.load(panel.scope === "graph" ? store.get().graphKey : null);
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
    for (const approval of shown) if (!cards.has(approval.id)) cards.set(approval.id, createCard(app, approval, { siblings: () => [...store.get().approvals.values()], onDecided: (one) => decidedHere([one]) }));
    const cardPart = (id) => ({ key: id, facts: [cards.get(id)], make: () => cards.get(id).element });
    const groups = panel.view === "open" ? groupsOf(shown, panel.group) : [];
    const parts = panel.view === "open" ? groups.flatMap((group) => [...headOf(group, panel.group), ...group.approvals.map((one) => cardPart(one.id))]) : shown.map((one) => cardPart(one.id));
    const earlier = cardsInOrder().map((card) => card.approval.id);
    for (const id of [...cards.keys()].filter((one) => !keep.has(one))) parts.splice(placeOf(id, earlier, parts), 0, cardPart(id));
    drawList(cards.size ? parts : [notice()]);
    ghosts.putOnTop(panel.isShown && panel.view === "open" ? shown[0] ?? null : null);
    const { reviewShown } = store.get();
    if (!keep.has(reviewShown)) return land();
    store.set({ reviewShown: null });
    panel.isOpening = false;
    cards.get(reviewShown).focus();
  }

  // Where a card stays that was decided while it has the focus: before the one that followed it, else at the end.
  function placeOf(id, earlier, parts) {
    const next = earlier.slice(earlier.indexOf(id) + 1).map((one) => parts.findIndex((part) => part.key === one)).find((at) => at >= 0);
    return next ?? parts.length;
  }

  function cardsInOrder() {
    return [...list.querySelectorAll(".card")].map((found) => cards.get(found.dataset.approval)).filter(Boolean);
  }

  // Goes on to the next that waits, else to the one before; what was decided leaves the list.
  function decidedHere(decided) {
    if (!decided.length) return;
    panel.last = decided.at(-1);
    said.textContent = decided.length > 1 ? t("review.said_many", { n: decided.length }) : t(`review.said_${panel.last.status === "rejected" ? "rejected" : panel.last.status === "applied" ? "applied" : "other"}`, { title: panel.last.title });
    const all = cardsInOrder();
    const at = all.findIndex((card) => card.element.contains(document.activeElement));
    const waits = (card) => isOpen(card.approval) && !decided.some((one) => one.id === card.approval.id);
    const next = all.slice(Math.max(at, 0)).find(waits) ?? all.findLast(waits);
    if (next) next.focus();
    else list.focus();
    refresh();
  }

  function notice() {
    return { key: "notice", facts: [store.get().lang, panel.view, panel.state, panel.error], make: emptyNotice };
  }

  function emptyNotice() {
    if (panel.state === "loading") return h("p.notice-line", { role: "status" }, t("review.loading"));
    if (panel.state === "failed") return h("div.notice-line", { role: "alert" }, h("p", panel.error.message), h("button", { type: "button", onclick: () => look() }, t("app.retry")));
    return h("div.notice-line", h("p.notice-title", t(`review.empty.${panel.view}`)), h("p.note", t(`review.empty.${panel.view}_hint`)));
  }
}
