// What a conversation does when a turn fails or the connection is lost: nothing a person wrote goes with it.

import { ApiError } from "../api.js";
import { h } from "../dom.js";
import { listThreads } from "./service.js";

export const LOOK_AGAIN_MS = 2500;
export const TITLE_CHARS = 80;

// Says that a turn failed and offer what may help.
export function failed(conversation, turn, event) {
  const { t, request, composer } = conversation;
  turn.end("failed");
  const threadId = event.details?.threadId;
  if (threadId) conversation.keep(threadId);
  const isTaken = request?.kind === "resume" && ["busy", "stale", "conflict"].includes(event.code);
  const isLost = event.code === "network" && !threadId && !conversation.app.socket.isOpen;
  conversation.enter(isLost ? "lost" : "failed");
  if (isTaken && conversation.threadId) {
    conversation.stream = conversation.earlier ?? conversation.stream;
    conversation.earlier = null;
    conversation.timer = setTimeout(() => conversation.open(conversation.threadId, { isQuiet: true }), LOOK_AGAIN_MS);
    turn.note(event.code === "busy" ? t("chat.busy_elsewhere") : event.error);
    return;
  }
  if (request?.kind === "chat" && !threadId) composer.restore(request.text, request.blocks);
  const wait = event.details?.retryAfterS;
  const text = wait ? `${event.error} ${t("chat.retry_after", { n: Math.ceil(wait) })}` : event.error;
  turn.fail(text, ...(event.retryable ? [retryButton(conversation, turn, threadId)] : []));
}

function retryButton(conversation, turn, threadId) {
  const again = () => {
    const { request, composer } = conversation;
    if (turn !== conversation.turn || conversation.isBusy) return;
    if (threadId && request) conversation.resume(request.kind === "resume" && request.fields.approved === false ? request.fields : { approved: true });
    else if (request?.kind === "chat") {
      if (composer.text.trim() === request.text) composer.fill("");
      conversation.sendChat(request.text, request.blocks);
    } else if (request) conversation.resume(request.fields);
  };
  return h("button.primary", { type: "button", onclick: again }, conversation.t("chat.retry"));
}

// The connection is back. Lost in a turn, the server has stopped and kept it: show what it kept.
export async function reconnected(conversation) {
  if (conversation.phase === "waiting" && conversation.stream) {
    conversation.stream.close();
    conversation.stream = null; // the new connection does not hear of decisions made elsewhere by itself
  }
  if (conversation.phase !== "lost") return;
  conversation.enter("connected");
  const { request, composer } = conversation;
  const text = request?.kind === "chat" ? request.text : null;
  const threadId = conversation.threadId ?? (text && (await threadOf(conversation, text)));
  if (!threadId) return;
  await conversation.open(threadId, { isQuiet: true });
  if (composer.text.trim() === text && holds(conversation, text)) composer.fill("");
}

function holds(conversation, text) {
  return [...conversation.log.content.querySelectorAll(".turn.is-user")].at(-1)?.textContent === text;
}

async function threadOf({ app, graphKey }, text) {
  try {
    const [newest] = await listThreads(app.api, graphKey, 1);
    return newest?.title === text.slice(0, TITLE_CHARS) ? newest.threadId : null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return null;
  }
}
