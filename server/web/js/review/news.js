// News of proposals while the page is open: the server pushes what changed. Where it cannot, lists are read now and then.

import { ApiError } from "../api.js";
import { kept } from "../kept.js";
import { personName } from "../names.js";
import { isOpen } from "./approvals.js";
import { loadApprovals, readApproval, take } from "./book.js";

const MOST_NOTICES = 3; // at once; more are one notice
const FALLBACK_MS = 30_000;
const LIMIT = 200;
const SYSTEM = "system"; // who closes what nobody decided

// Keeps approvals, `conflicts`, `decidable` and the tab's badge of the store up to date, and tells of decisions. The panel
// sets `app.reviews.wanted()`, the filter of the list that is shown, or null; `load()` reads that list once more and
// rejects with ApiError; `count()` follows what the panel is about.
export function mountNews(app) {
  const { store, socket, t } = app;
  const reviews = (app.reviews = { wanted: () => null, load, count });
  const wanted = () => reviews.wanted();
  const noticed = new Set();
  const seenName = () => `review.seen.${store.get().me?.userId ?? ""}`;
  let isPushed = false;

  async function load() {
    return loadApprovals(app, { ...(wanted() ?? {}), limit: LIMIT });
  }

  // What was missed: read where something of it may be shown.
  async function catchUp() {
    if (!wanted() && ![...store.get().approvals.values()].some(isOpen)) return;
    await load().catch((error) => error instanceof ApiError || reportError(error)); // the next look may do better
  }

  async function watch() {
    const since = Number(kept.get(seenName()));
    if (!since) kept.put(seenName(), String(Date.now()));
    store.set({ decidable: {}, conflicts: {} });
    try {
      await socket.request({ type: "ai:watch", approvals: true, ...(since ? { since } : {}) });
      isPushed = true;
    } catch {
      isPushed = false; // asked again with the next connection
    }
  }

  function news({ workspace, decidable, decided, approvals = [], conflicts = [], complete }) {
    take(app, approvals);
    store.set({ decidable: { ...store.get().decidable, [workspace]: decidable }, conflicts: { ...store.get().conflicts, [workspace]: conflicts } });
    if (!complete) catchUp();
    const { me } = store.get();
    const last = Math.max(0, ...decided.map((one) => one.at));
    if (last > Number(kept.get(seenName()))) kept.put(seenName(), String(last));
    const mine = decided.filter((one) => one.asker === me?.userId && one.userId !== me?.userId && !noticed.has(`${one.approvalId} ${one.event}`));
    for (const one of mine) noticed.add(`${one.approvalId} ${one.event}`);
    if (mine.length > MOST_NOTICES) app.toast("news", t("news.many", { n: mine.length }), { action: { label: t("news.show"), run: () => show(mine.at(-1)) } });
    else mine.forEach(tell);
  }

  async function tell(one) {
    try {
      const { title, result } = store.get().approvals.get(one.approvalId) ?? (await readApproval(app, one.approvalId));
      await app.people.named(one.userId);
      const isReplaced = one.event === "stale" && one.userId === SYSTEM;
      const said = result?.reason?.code === "stale_superseded" ? "superseded" : isReplaced ? "replaced" : one.event;
      app.toast("news", t(`news.${said}`, { who: personName(app, one.userId), what: title }), { action: { label: t("news.show"), run: () => show(one) } });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the list of what was decided shows it too
    }
  }

  async function show({ approvalId, graphKey }) {
    if (graphKey !== store.get().graphKey) await app.live.open(graphKey);
    store.set({ panel: "review", reviewShown: approvalId });
  }

  // Shows on the tab how many wait for a decision that this person may make, also while the panel itself is not shown.
  function count() {
    const { badges, decidable, graphKey } = store.get();
    const review = countIn(decidable, (kept.get("review.scope") ?? "graph") === "graph" ? graphKey : null);
    if ((badges?.review ?? 0) !== review) store.set({ badges: { ...badges, review } });
  }

  for (const part of ["decidable", "graphKey"]) store.on(part, count);
  socket.on("open", watch);
  socket.on("close", () => (isPushed = false));
  socket.on("ai:review", news);
  setInterval(() => !isPushed && document.visibilityState !== "hidden" && store.get().me && catchUp(), FALLBACK_MS);
}

// How many proposals of a graph, or of all.
function countIn(byWorkspace, graphKey) {
  const all = Object.values(byWorkspace ?? {}).flatMap((counts) => Object.entries(counts));
  return all.reduce((sum, [key, n]) => (!graphKey || key === graphKey ? sum + n : sum), 0);
}
