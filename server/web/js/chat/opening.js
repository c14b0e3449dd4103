// Shows a stored conversation, and reads it again while somebody else's turn is under way in it.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { keptInTab } from "../kept.js";
import { LOOK_AGAIN_MS } from "./failures.js";
import { nextPhase } from "./phases.js";
import { getMessages } from "./service.js";
import { showStored } from "./stored.js";

// Returns `{open(threadId, {isQuiet, isForced}), watchElsewhere()}`.
export function createOpening(conversation) {
  const { app, t, log } = conversation;
  return { open, watchElsewhere };

  // Shows a stored conversation. `isQuiet`: one that is gone is no news.
  async function open(threadId, { isQuiet = false, isForced = false } = {}) {
    if (conversation.isBusy && threadId === conversation.threadId && !isForced) return;
    conversation.leave();
    conversation.clear();
    conversation.threadId = threadId;
    conversation.shownGraph = conversation.graphKey;
    conversation.enter("open");
    log.content.append(h("p.notice-line", { role: "status" }, t("chat.loading")));
    let stored;
    try {
      stored = await getMessages(app.api, threadId);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      notOpened(threadId, error, isQuiet);
      return;
    }
    if (conversation.threadId !== threadId || conversation.phase !== "loading") return;
    await show(threadId, stored);
  }

  async function show(threadId, stored) {
    replace(log.content);
    conversation.phase = nextPhase(conversation.phase, "shown");
    conversation.stamp = stampOf(stored);
    conversation.agent = stored.agent ?? null;
    await showStored(conversation, stored);
    conversation.keep(threadId);
    conversation.onChange();
    log.toEnd();
    conversation.refreshTotals();
  }

  function notOpened(threadId, error, isQuiet) {
    if (conversation.threadId !== threadId) return;
    conversation.clear();
    if (error.status === 404) keptInTab.put(`thread.${conversation.graphKey}`, null);
    app.store.set({ threadId: null });
    if (!isQuiet || error.status !== 404) app.toast("error", error.message);
    conversation.onChange();
  }

  // Somebody else's turn is under way in this thread: look again until it has ended.
  function watchElsewhere() {
    clearTimeout(conversation.timer);
    conversation.timer = setTimeout(() => lookElsewhere(), LOOK_AGAIN_MS);
  }

  // Reads the thread again; what is shown is drawn again only if there is more of it.
  async function lookElsewhere() {
    const { threadId } = conversation;
    const isStill = () => conversation.threadId === threadId && conversation.phase === "elsewhere";
    if (!isStill()) return;
    let stored = null;
    try {
      stored = await getMessages(app.api, threadId);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next look may do better
      if (error.status === 404) return notOpened(threadId, error, true);
    }
    if (!isStill()) return undefined;
    if (!stored || stampOf(stored) === conversation.stamp) return watchElsewhere();
    conversation.clear();
    conversation.threadId = threadId;
    return show(threadId, stored);
  }
}

// What changes with every step of a stored conversation.
function stampOf({ status, conversationHistory, pendingInterrupt }) {
  const last = conversationHistory.at(-1);
  return JSON.stringify([status, conversationHistory.length, last?.content?.length, (pendingInterrupt?.approvals ?? []).map((one) => one.id)]);
}
