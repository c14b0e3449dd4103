// News of proposals while the page is open: how many wait, and what others decided of this person's own.

import { ApiError } from "../api.js";
import { kept } from "../kept.js";
import { fromDocument } from "./approvals.js";
import { bookOf } from "./book.js";
import { getApproval } from "./service.js";

const MOST_NOTICES = 3; // at once; more are one notice

// Keeps `waiting` of the store (counts by workspace and graph) up to date, and tell of decisions.
export function watchReviews(app) {
  const { store, socket, t } = app;
  const noticed = new Set();
  const seenName = () => `review.seen.${store.get().me?.userId ?? ""}`;

  function watch() {
    const since = Number(kept.get(seenName()));
    if (!since) kept.put(seenName(), String(Date.now()));
    store.set({ waiting: {} });
    socket.request({ type: "ai:watch", ...(since ? { since } : {}) }).catch(() => {}); // asked again with the next connection
  }

  function take({ workspace, waiting, decided }) {
    store.set({ waiting: { ...store.get().waiting, [workspace]: waiting } });
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
      const approval = bookOf(app).put(fromDocument(await getApproval(app.api, one.approvalId)));
      const what = approval.title;
      app.toast("news", t(`news.${one.event}`, { who: one.userId, what }), { action: { label: t("news.show"), run: () => show(one) } });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the list of what was decided shows it too
    }
  }

  async function show({ approvalId, graphKey }) {
    if (graphKey !== store.get().graphKey) await app.live.open(graphKey);
    store.set({ panel: "review", reviewShown: approvalId });
  }

  socket.on("open", watch);
  socket.on("ai:review", take);
}

// How many proposals wait: of a graph, or of all.
export function waitingIn(waiting, graphKey) {
  const all = Object.values(waiting ?? {}).flatMap((counts) => Object.entries(counts));
  return all.reduce((sum, [key, n]) => (!graphKey || key === graphKey ? sum + n : sum), 0);
}
