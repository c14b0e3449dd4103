// Shows the turn that another tab runs in the open conversation: the same question, the same answer as it comes.
//
// A turn that runs where its words cannot be seen (another server) is read from the store until it has ended.

import { createQuestion } from "./turn.js";

// Returns `{follow(threadId), stop()}`; `follow(null)` follows nothing any more.
export function createFollowing(conversation) {
  const { app, log } = conversation;
  let stream = null;
  let followed = null; // the thread
  let turn = null; // what is shown of another's turn, while it runs
  let isUnseen = false; // a turn is under way whose beginning is not known from what is stored

  function follow(threadId) {
    if (threadId === followed && stream) return;
    stream?.close();
    stream = turn = null;
    isUnseen = false;
    const wasFollowing = followed;
    followed = threadId;
    if (!app.socket.isOpen || !(threadId || wasFollowing)) return;
    const made = app.socket.stream({ type: "ai:follow", threadId: threadId ?? "" }, (event) => made === stream && take(event));
    made.done.catch(() => {}); // the events say it
    if (threadId) stream = made;
    else made.close();
  }

  function again() {
    const threadId = followed;
    stream = turn = null;
    if (threadId) follow(threadId);
  }

  function take(event) {
    if (followed !== conversation.threadId) return;
    if (event.type === "ai:follow_turn") begin(event);
    else if (event.type === "ai:follow_end") ended();
    else if (["ai:complete", "ai:error"].includes(event.type) && isUnseen) ended();
    else if (turn && turn === conversation.turn) pass(event);
  }

  function begin({ here, message }) {
    const { phase } = conversation;
    if (conversation.isBusy || phase === "loading") return;
    const isLate = phase === "elsewhere";
    isUnseen = here && isLate && message === undefined;
    if (!here || isUnseen) {
      if (!isLate) conversation.open(followed, { isQuiet: true });
      return;
    }
    conversation.release();
    if (isLate) conversation.turn?.element.remove(); // it is shown again, from its beginning
    else if (message !== undefined) log.content.append(createQuestion(app, message));
    if (message !== undefined || !conversation.turn) conversation.newTurn();
    ({ turn } = conversation);
    conversation.followTurn(turn);
  }

  function pass(event) {
    const isEnding = ["ai:complete", "ai:error"].includes(event.type);
    const shown = turn;
    if (isEnding) turn = null;
    conversation.take(shown, event);
  }

  // The tab that ran it is gone, or its events are not known here: how it ended is stored.
  function ended() {
    turn = null;
    isUnseen = false;
    conversation.open(followed, { isQuiet: true, isForced: true });
  }

  app.socket.on("open", again);
  return { follow, again, stop: () => stream?.cancel(followed) };
}
