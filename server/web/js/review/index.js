// The review panel: what waits for a decision, what became of one's own, what was decided, and a graph's history with undo.
//
// A row for each proposal, and the card of one of them: the one whose row has the focus.

import { ApiError } from "../api.js";
import { createParts, h, replace } from "../dom.js";
import { isTyping } from "../key-queue.js";
import { kept } from "../kept.js";
import { isExpired, isOpen } from "./approvals.js";
import { readApproval } from "./book.js";
import { createDetail } from "./detail.js";
import { conflictsWith } from "./facts.js";
import { PROPOSALS } from "./filters.js";
import { ghostsOf } from "./ghosts.js";
import { createGroupHead } from "./group-head.js";
import { groupsOf } from "./groups.js";
import { createHistory } from "./history.js";
import { listenForKeys } from "./keys.js";
import { timeOf } from "./lines.js";
import { createRow } from "./row.js";
import { createReviewTop } from "./top.js";

const SOON_MS = 100; // news that come together are shown together
const MINUTE_MS = 60_000;

export function mountReview(app, element) {
  const { t, store } = app;
  const rows = new Map(); // approval id -> its row
  const list = h("div.review-list", { tabIndex: -1 });
  const drawList = createParts(list);
  const history = createHistory(app);
  const panel = {
    view: "open", scope: kept.get("review.scope") ?? "graph", group: kept.get("review.group") ?? "answer", code: "", filters: {},
    current: null, asked: store.get().reviewShown, listed: null, last: null, state: "loading",
    get isShown() {
      return store.get().panel === "review" && document.visibilityState !== "hidden";
    },
  };
  const { reviews } = app;
  const ghosts = ghostsOf(app);
  const detail = createDetail(app, { siblings: () => [...store.get().approvals.values()], onDecided: (one) => decidedHere([one]) });
  const body = h("div.review-body", list, detail.element);
  const top = createReviewTop(app, panel, { show, choose, filter: chooseFilter });
  reviews.wanted = () => (panel.isShown && panel.view !== "history" ? filter() : null);
  const headOf = createGroupHead(app, { onDecided: decidedHere });
  store.on("reviewView", (view) => view && (show(view), store.set({ reviewView: null })));
  store.on("reviewShown", (id) => id && id !== panel.current && showOne(id));
  for (const part of ["approvals", "names", "conflicts"]) store.on(part, soon);
  store.on("panel", opened);
  store.on("graphKey", restart);
  store.on((state) => `${state.me?.userId} ${state.me?.role}`, restart);
  store.on("lang", restart); // titles come in the language of who asks
  app.socket.on("open", look);
  addEventListener("online", look); // a list that could not be read is read again
  document.addEventListener("visibilitychange", look);
  listenForKeys(app, body, { list, ids: () => [...rows.keys()], focusRow, card: detail.card, panel });
  render();
  opened();

  // Opens on the row on top, or on the one that was shown; who goes along the tabs by arrow keys stays there.
  function opened() {
    panel.isOpening = panel.isShown && !document.activeElement?.matches("[role=tab]:focus-visible");
    if (panel.isShown) look();
    else ghosts.putOnTop(null);
    if (store.get().panel !== "review") store.set({ reviewShown: null });
  }

  function land() {
    if (!panel.isOpening || panel.state === "loading") return;
    panel.isOpening = false;
    const isBusy = element.contains(document.activeElement) || document.querySelector("dialog[open]") || (isTyping(document.activeElement) && document.activeElement.checkVisibility());
    if (!isBusy && panel.view === "open") focusRow(panel.current);
  }

  function restart() {
    detail.clear();
    Object.assign(panel, { listed: null, last: null, current: null, filters: {} });
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
    replace(element, h("div.review", top.render(), body, history.element));
    refresh();
  }

  function choose(name, value) {
    panel[name] = value;
    if (name !== "code") kept.put(`review.${name}`, value);
    if (name === "scope") restart();
    else refresh();
  }

  function chooseFilter(name, value) {
    panel.filters = { ...panel.filters, [name]: value };
    refresh();
  }

  function show(view) {
    if (view !== panel.view) panel.current = null;
    panel.view = view;
    refresh();
    look();
  }

  // Shows one approval, which may be older than what is listed, or be none.
  async function showOne(id) {
    panel.asked = id;
    try {
      const one = store.get().approvals.get(id) ?? (await readApproval(app, id));
      panel.filters = {};
      show(isOpen(one) && !isExpired(one) ? "open" : "decided");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      panel.asked = null;
      store.set({ reviewShown: panel.current });
      app.toast("error", error.message);
    }
  }

  // The approvals of a view: what waits oldest first, so that nothing moves under a hand, the rest by when it ended.
  function inView(view) {
    const { me, approvals, graphKey } = store.get();
    const waits = (one) => isOpen(one) && !isExpired(one);
    const fits = { open: waits, inbox: (one) => !waits(one) && one.asker === me?.userId && !one.undoes, decided: (one) => !waits(one), history: () => false }[view];
    const found = [...approvals.values()].filter((one) => fits(one) && (panel.scope === "all" || !graphKey || one.graphKey === graphKey));
    return view === "open" ? groupsOf(found, panel.group).flatMap((group) => group.approvals) : found.toSorted((one, other) => timeOf(other) - timeOf(one));
  }

  function chosen() {
    const code = panel.code.trim().toLowerCase();
    return inView(panel.view).filter((one) => (one.spokenCode ?? "").includes(code) && PROPOSALS.passes(one, panel.filters));
  }

  function refresh() {
    if (panel.view === "inbox" && panel.isShown) kept.put("review.inbox", String(Date.now()));
    const isHistory = panel.view === "history";
    top.draw(inView);
    body.hidden = isHistory;
    history.element.hidden = !isHistory;
    if (!isHistory) renderList();
    else if (panel.isShown) history.load(panel.scope === "graph" ? store.get().graphKey : null);
  }

  function renderList() {
    const approvals = chosen();
    const parts = partsOf(approvals);
    drawList(parts.length ? parts : [notice()]);
    rows.clear();
    for (const row of list.querySelectorAll(".review-row")) rows.set(row.dataset.approval, row);
    const asked = rows.has(panel.asked) && panel.asked;
    if (asked) Object.assign(panel, { asked: null, isOpening: false });
    if (asked || !panel.asked) setCurrent(asked || (rows.has(panel.current) ? panel.current : approvals[0]?.id ?? null));
    if (asked) focusCard();
    else land();
  }

  // The rows with the heads of their groups. The row in which somebody is stays until they leave it.
  function partsOf(approvals) {
    const groups = panel.view === "open" ? groupsOf(approvals, panel.group) : [{ approvals }];
    const parts = groups.flatMap((group) => [...(panel.view === "open" ? headOf(group, panel.group) : []), ...group.approvals.map(rowPart)]);
    const here = store.get().approvals.get(panel.current);
    if (!here || approvals.includes(here) || !isHeld()) return parts;
    const earlier = [...rows.keys()];
    const next = earlier.slice(earlier.indexOf(here.id) + 1).map((one) => parts.findIndex((part) => part.key === one)).find((at) => at >= 0);
    return parts.toSpliced(next ?? parts.length, 0, rowPart(here));
  }

  const isHeld = () => detail.element.contains(document.activeElement) || document.activeElement === rows.get(panel.current);

  function rowPart(approval) {
    const { lang, names, graphs, automations } = store.get();
    const isExcluded = isOpen(approval) && conflictsWith(store.get(), approval).length > 0;
    const withGraph = panel.scope === "all";
    const onHover = (isOver) => isOpen(approval) && (isOver ? ghosts.enter(approval) : ghosts.leave(approval));
    const made = () => createRow(app, approval, { withGraph, isExcluded, onHover, onShow: () => setCurrent(approval.id), onOpen: opensCard });
    return { key: approval.id, facts: [approval, lang, names, graphs, automations, isExcluded, withGraph, Math.floor(Date.now() / MINUTE_MS)], make: made };
  }

  // By Enter, or where the card stands below the rows, a row leads on to its card.
  function opensCard(event) {
    if (event.detail === 0) focusCard();
    else if (detail.element.offsetTop > list.offsetTop) detail.element.scrollIntoView({ block: "nearest" });
  }

  function setCurrent(id) {
    panel.current = id;
    for (const [each, row] of rows) {
      row.tabIndex = each === id ? 0 : -1;
      if (each === id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    const approval = store.get().approvals.get(id) ?? null;
    ghosts.putOnTop(panel.isShown && panel.view === "open" ? approval : null);
    detail.show(approval);
    if (store.get().panel === "review") store.set({ reviewShown: id });
  }

  function focusRow(id) {
    const row = rows.get(id) ?? list;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function focusCard() {
    rows.get(panel.current)?.scrollIntoView({ block: "nearest" });
    detail.card()?.focus();
  }

  // Goes on to the next that waits, else to the one before; what was decided leaves the list.
  function decidedHere(decided) {
    if (!decided.length) return;
    panel.last = decided.at(-1);
    top.say(decided.length > 1 ? t("review.said_many", { n: decided.length }) : t(`review.said_${panel.last.status === "rejected" ? "rejected" : panel.last.status === "applied" ? "applied" : "other"}`, { title: panel.last.title }));
    const all = [...rows.keys()];
    const gone = new Set(decided.map((one) => one.id));
    const waits = (id) => isOpen(store.get().approvals.get(id)) && !gone.has(id);
    const next = all.slice(Math.max(all.indexOf(panel.current), 0)).find(waits) ?? all.findLast(waits);
    focusRow(next);
    refresh();
  }

  function notice() {
    return { key: "notice", facts: [store.get().lang, panel.view, panel.state, panel.error, JSON.stringify(panel.filters), inView(panel.view).length], make: emptyNotice };
  }

  function emptyNotice() {
    if (panel.state === "loading") return h("p.notice-line", { role: "status" }, t("review.loading"));
    if (panel.state === "failed") return h("div.notice-line", { role: "alert" }, h("p", panel.error.message), h("button", { type: "button", onclick: () => look() }, t("app.retry")));
    const all = inView(panel.view);
    if (all.length && !panel.code) return filteredNotice(PROPOSALS.toClear(all, panel.filters));
    return h("div.notice-line", h("p.notice-title", t(`review.empty.${panel.view}`)), h("p.note", t(`review.empty.${panel.view}_hint`)));
  }

  function filteredNotice(names) {
    const clear = () => ((panel.filters = { ...panel.filters, ...Object.fromEntries(names.map((name) => [name, ""])) }), refresh());
    return h("div.notice-line", { role: "status" }, h("p.notice-title", t("filter.none")),
      names.map((name) => h("button", { type: "button", onclick: () => chooseFilter(name, "") }, t("filter.clear", { name: t(`filter.${name}`) }))),
      names.length > 1 ? h("button", { type: "button", onclick: clear }, t("filter.clear_all")) : "");
  }
}
