// Fills a conversation with what is stored of it: turns, tools, decided proposals, and what it waits for.

import { ApiError } from "../api.js";
import { h } from "../dom.js";
import { loadApprovals } from "../review/book.js";
import { itemsOf } from "./history.js";
import { isProposal } from "./tools.js";
import { showSources } from "./sources.js";
import { createQuestion, createTurn } from "./turn.js";

const SEARCHED = 200;

// Shows a stored conversation, as `getMessages` gives it, in an empty `conversation`.
export async function showStored(conversation, stored) {
  const { app, log } = conversation;
  const items = itemsOf(stored.conversationHistory);
  const hasProposals = items.some((item) => item.events?.some((event) => isProposal(event.toolName)));
  const approvals = hasProposals ? await ofThread(app, conversation.threadId) : new Map();
  for (const waiting of stored.pendingInterrupt?.approvals ?? []) {
    const found = approvals.has(waiting.toolCallId) ? null : await conversation.known(waiting.id);
    if (found) approvals.set(waiting.toolCallId, found);
  }
  if (approvals.size) await conversation.readProposals();
  for (const item of items) {
    if (item.kind === "question") {
      log.content.append(createQuestion(app, item.text));
      conversation.composer.last = item.text;
      conversation.title ||= item.text.slice(0, 80);
    } else showTurn(conversation, item, approvals);
  }
  showStatus(conversation, stored);
  if (stored.status === "idle" && conversation.turn) showSources(app, conversation.turn);
}

async function ofThread(app, threadId) {
  try {
    const found = await loadApprovals(app, { threadId, limit: SEARCHED });
    return new Map(found.map((one) => [one.toolCallId, one]));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return new Map();
  }
}

function showTurn(conversation, { events, looked }, approvals) {
  const turn = createTurn(conversation.app, conversation.log);
  conversation.log.content.append(turn.element);
  conversation.turn = turn;
  let found = [];
  const flush = () => {
    if (!found.length) return;
    turn.group = null;
    const group = conversation.groupOf(turn);
    found.forEach((approval) => group.add(approval));
    found = [];
  };
  for (const event of events) {
    if (event.type === "ai:token") flush();
    if (event.type === "ai:tool_start") {
      turn.startTool(event.toolCallId, event.toolName, event.arguments);
      if (approvals.has(event.toolCallId)) found.push(approvals.get(event.toolCallId));
    } else turn.take(event);
  }
  flush();
  turn.looked.show(looked);
  turn.end();
}

// Says where the last turn stands, and offer what can be done about it.
function showStatus(conversation, { status, pendingInterrupt }) {
  const { t } = conversation;
  const isUnanswered = conversation.log.content.lastElementChild?.classList.contains("is-user");
  if (status !== "idle" && (isUnanswered || !conversation.turn)) conversation.newTurn();
  const { turn } = conversation;
  const button = (key, kind, fn) => h("button", { type: "button", class: kind, onclick: fn }, t(key));
  if (status === "waiting" && pendingInterrupt?.type === "question") conversation.atQuestion(turn, pendingInterrupt.card);
  else if (status === "waiting") {
    conversation.enter("proposed");
    const group = turn.group;
    if (group && !group.isOpen()) conversation.allDecided(turn, group.approvals().at(-1), true);
  } else if (status === "limit" && pendingInterrupt) {
    conversation.atLimit(turn, { used: pendingInterrupt.roundsUsed, max: pendingInterrupt.maxExtended });
  } else if (status === "failed") {
    turn.fail(t("chat.broke_off"), button("chat.retry", "primary", () => conversation.resume({ approved: true })));
  } else if (status === "running") {
    conversation.enter("running");
    turn.note(t("chat.busy_elsewhere"), button("chat.take_up", "", () => conversation.resume({ approved: true })));
    conversation.watchElsewhere();
  } else if (status === "stopped") turn.note(t("chat.stopped"));
}
