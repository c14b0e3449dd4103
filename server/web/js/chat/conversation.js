// One conversation: questions go out, turns come in, and what a turn waits for is decided here or elsewhere.
//
// Approvals are shown as the server has them, never as a message tells them.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { keptInTab } from "../kept.js";
import { isOpen } from "../review/approvals.js";
import { readApproval } from "../review/book.js";
import { chosenAgent } from "./agent.js";
import { createAskedCard } from "./asked.js";
import { endingOf } from "./ending.js";
import { failed, reconnected, TITLE_CHARS } from "./failures.js";
import { createFollowing } from "./following.js";
import { createOpening } from "./opening.js";
import { nextPhase } from "./phases.js";
import { endThread, getMessages, listThreads } from "./service.js";
import { showSources } from "./sources.js";
import { createQuestion, createTurn } from "./turn.js";

const ELSEWHERE_MS = 5000;
const FEATURES = ["questions"]; // what this page shows beyond what every client does
let proposals = null; // read with the first

// `onChange()` is called when what stands around the log has to be drawn again.
export function createConversation(app, { log, composer, onChange }) {
  const { t } = app;
  const conversation = {
    app, t, log, composer, onChange,
    get isBusy() {
      return ["busy", "following"].includes(conversation.phase);
    },
    followAgain: () => following.again(),
    get isEmpty() {
      return !log.content.querySelector(".turn") && conversation.phase !== "loading";
    },
    get graphKey() {
      return app.store.get().graphKey;
    },
    // Who answers: the agent of the conversation, of a new one the chosen one; null: the assistant of the graph.
    get agentId() {
      return conversation.threadId ? conversation.agent?.agentId ?? null : chosenAgent(app.store.get())?.id ?? null;
    },
    get agentName() {
      return app.store.get().agents?.find((one) => one.id === conversation.agentId)?.name ?? conversation.agentId;
    },
    get mayAsk() {
      return !conversation.agent?.endedTime && Boolean(conversation.graphKey || conversation.agentId);
    },
  };
  Object.assign(conversation, {
    clear, leave, askAbout: composer.askAbout, enterGraph, startNew, tryOut, ask, newTurn, sendChat, resume, stop, release, followTurn, enter, take, atLimit, atQuestion, known,
    readProposals, groupOf, allDecided, ...createOpening(conversation), keep, refreshTotals, end,
  });
  const following = createFollowing(conversation);
  clear();
  app.socket.on("open", () => reconnected(conversation));
  return conversation;

  function clear() {
    conversation.stream?.close();
    conversation.earlier?.close();
    clearTimeout(conversation.timer);
    conversation.groups?.forEach((group) => group.destroy());
    Object.assign(conversation, { threadId: null, title: "", turn: null, stream: null, earlier: null, phase: nextPhase(conversation.phase ?? "idle", "clear"), groups: [], limit: null, request: null, stamp: "", tried: null, agent: null });
    replace(log.content);
    app.canvas.showSources({});
  }

  // Shows the conversation that this tab last had about the graph, or none.
  function enterGraph() {
    const { graphKey, graphState, threadId } = app.store.get();
    if (graphKey === conversation.shownGraph) return;
    if (graphState !== "ready" && graphKey) {
      leave();
      clear();
      following.follow(null);
      conversation.shownGraph = null;
      onChange();
      return;
    }
    conversation.shownGraph = graphKey;
    clear();
    onChange();
    const kept = threadId ?? keptInTab.get(`thread.${graphKey}`);
    if (graphKey && kept) conversation.open(kept, { isQuiet: !threadId });
  }

  function startNew() {
    leave();
    clear();
    following.follow(null);
    keptInTab.put(`thread.${conversation.graphKey}`, null);
    app.store.set({ threadId: null, usage: null });
    onChange();
    composer.focus();
  }

  // Asks in a new conversation what an automation would be asked; `tried` are its fields, null once it is made.
  function tryOut(tried) {
    if (tried) startNew();
    conversation.tried = tried;
    if (tried) ask(tried.message, tried);
    else onChange();
  }

  // `blocks` of the message, and its text as it is read with them.
  function ask(text, { blocks = [], read = text } = {}) {
    if (conversation.isBusy || !conversation.mayAsk) return;
    if (conversation.phase === "question") conversation.turn?.showAfter(); // the message takes the answer's place
    log.content.append(createQuestion(app, read));
    conversation.title ||= text.slice(0, TITLE_CHARS);
    newTurn();
    app.canvas.showSources({});
    composer.last = text;
    log.content.querySelector(".welcome")?.remove();
    sendChat(text, blocks);
    log.toEnd();
  }

  function newTurn() {
    conversation.turn = createTurn(app, log);
    conversation.turn.isLive = true;
    log.content.append(conversation.turn.element);
    log.keep(conversation.turn.element);
  }

  function sendChat(text, blocks = []) {
    const agent = conversation.threadId ? null : chosenAgent(app.store.get());
    const graphKey = agent && !agent.graphs?.length ? "" : conversation.graphKey ?? "";
    const message = { type: "ai:chat", graphKey, ...(agent ? { agentId: agent.id } : {}), message: text, features: FEATURES, ...(blocks.length ? { blocks } : {}) };
    send(conversation.threadId ? { ...message, threadId: conversation.threadId } : message, { kind: "chat", text, blocks });
  }

  // Goes on where the thread waits. `fields` as in `ai:resume`.
  function resume(fields) {
    if (!conversation.turn) newTurn();
    conversation.turn.isLive = true;
    send({ type: "ai:resume", threadId: conversation.threadId, features: FEATURES, ...fields }, { kind: "resume", fields });
  }

  // Answers what the model asked; tried again, the turn goes on with the answer that is stored.
  function answerAsked(response) {
    conversation.turn.isLive = true;
    send({ type: "ai:answer", threadId: conversation.threadId, response }, { kind: "resume", fields: { approved: true } });
  }

  function send(message, request) {
    clearTimeout(conversation.timer);
    const turn = conversation.turn;
    Object.assign(conversation, { request, limit: null });
    turn.showAfter();
    turn.segment = null;
    enter("send");
    turn.working();
    // After a decision the server may go on by itself, under the id of before: whichever speaks first is heard.
    conversation.earlier?.close();
    conversation.earlier = request.kind === "resume" ? conversation.stream : (conversation.stream?.close(), null);
    const stream = app.socket.stream(message, (event) => isAnswering(stream, event) && take(turn, event));
    conversation.stream = stream;
    stream.done.catch((error) => {
      if (conversation.stream === stream && conversation.isBusy && turn === conversation.turn) failed(conversation, turn, { error: error.message, code: error.code, retryable: error.retryable });
    });
  }

  // Whether an event is of the stream that answers; the one that did not is left.
  function isAnswering(stream, event) {
    if (stream === conversation.earlier && event.type !== "ai:error") {
      conversation.stream.close();
      conversation.stream = stream;
      conversation.earlier = null;
    } else if (stream === conversation.stream && conversation.earlier && event.type !== "ai:error") {
      conversation.earlier.close();
      conversation.earlier = null;
    }
    return stream === conversation.stream;
  }

  function stop() {
    if (conversation.phase === "following") following.stop();
    else conversation.stream?.cancel(conversation.threadId ?? undefined);
  }

  // Shows something else: a turn of this tab is stopped, another tab's goes on.
  function leave() {
    if (conversation.phase === "busy") stop();
  }

  // Another tab runs the next turn: nothing is waited for here.
  function release() {
    clearTimeout(conversation.timer);
    conversation.stream?.close();
    conversation.earlier?.close();
    conversation.stream = conversation.earlier = null;
  }

  // Shows another tab's turn as it comes.
  function followTurn(turn) {
    Object.assign(conversation, { request: { kind: "resume", fields: { approved: true } }, limit: null });
    turn.isLive = true;
    turn.showAfter();
    turn.segment = null;
    enter("follow");
    turn.working();
    log.stay();
  }

  function enter(event) {
    conversation.phase = nextPhase(conversation.phase, event);
    onChange();
  }

  function take(turn, event) {
    if (conversation.graphKey !== conversation.shownGraph && conversation.shownGraph) return;
    if (!conversation.isBusy && !["ai:complete", "ai:error"].includes(event.type)) {
      enter("resumed"); // a decision made elsewhere: the turn goes on
      turn.working();
    }
    if (event.type === "ai:tool_limit") conversation.limit = event;
    else if (event.type === "ai:complete") completed(turn, event);
    else if (event.type === "ai:error") failed(conversation, turn, event);
    else turn.take(event);
  }

  function completed(turn, event) {
    if (event.threadId) keep(event.threadId);
    turn.looked.show(event.contextNodes, event.wordsOnly === true);
    const ending = endingOf(event, conversation.limit);
    conversation.limit = null;
    if (ending.kind === "answer") {
      answered(turn, ending);
      turn.take(event);
      showSources(app, turn, event.sources);
    } else turn.end();
    if (ending.kind === "limit") atLimit(turn, ending);
    if (ending.kind === "question") showAsked(turn, event.fullText);
    if (ending.kind === "proposals") showProposals(turn, ending, event.fullText);
    refreshTotals();
    refreshAgent();
  }

  function answered(turn, { text, isStopped }) {
    if (turn.isEmpty && text.trim()) turn.addText(text);
    turn.end();
    if (isStopped) turn.note(t("chat.stopped"));
    enter("answered");
  }

  function atLimit(turn, { used, max }) {
    const button = (key, kind, approved) => h("button", { type: "button", class: kind, onclick: () => resume({ approved }) }, t(key));
    turn.note(t("limit.text", { used, max }), button("limit.go_on", "primary", true), button("limit.answer", "", false));
    enter("limited");
    log.say(t("limit.text", { used, max }));
  }

  function atQuestion(turn, card) {
    turn.showAfter(createAskedCard(app, card, answerAsked));
    enter("asked");
    log.say(String(card.text));
  }

  // Shows a question as the server has it: an answer may look like one.
  async function showAsked(turn, fullText) {
    enter("asked");
    const { threadId } = conversation;
    const found = await getMessages(app.api, threadId).catch((error) => {
      if (!(error instanceof ApiError)) throw error;
      return {};
    });
    if (conversation.threadId !== threadId || turn !== conversation.turn || conversation.phase !== "question") return;
    if (found.pendingInterrupt?.type === "question") atQuestion(turn, found.pendingInterrupt.card);
    else answered(turn, { text: fullText, isStopped: false });
  }

  async function showProposals(turn, ending, fullText) {
    enter("proposed");
    const [found] = await Promise.all([Promise.all(ending.approvals.map((one) => known(one.id))), readProposals()]);
    const approvals = found.filter((one) => one && one.threadId === conversation.threadId);
    if (!approvals.length) {
      if (turn.isEmpty) turn.addText(fullText);
      turn.end();
      enter("answered");
      return;
    }
    const group = groupOf(turn);
    approvals.forEach((approval) => group.add(approval));
    if (!group.isOpen()) allDecided(turn, approvals.at(-1), false); // decided while the message was on its way
    log.toEnd(true);
    log.say(t("chat.proposals_wait", { n: approvals.filter(isOpen).length }));
  }

  // Resolves when `groupOf` can be called.
  async function readProposals() {
    proposals ??= await import("./proposals.js");
  }

  async function known(id) {
    try {
      return await readApproval(app, id);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return null;
    }
  }

  function groupOf(turn) {
    if (turn.group?.isOpen()) return turn.group;
    turn.draw();
    turn.segment = null;
    turn.group = proposals.createProposals(app, {
      onAllDecided: (approval, isOurs) => allDecided(turn, approval, isOurs),
      onAskAgain: (approval) => composer.fill(t("chat.ask_again", { what: approval.title })),
    });
    conversation.groups.push(turn.group);
    turn.body.append(turn.group.element);
    return turn.group;
  }

  // All is decided: the turn goes on. After a decision elsewhere the server sees to it, where it still knows us.
  function allDecided(turn, approval, isOurs) {
    if (turn !== conversation.turn || !(conversation.isBusy || conversation.phase === "waiting")) return;
    clearTimeout(conversation.timer);
    const goOn = () => {
      if (conversation.phase !== "waiting" || turn !== conversation.turn) return;
      if (isOurs) log.toEnd();
      resume({ approved: approval.status !== "rejected", approvalId: approval.id });
    };
    if (isOurs || !(conversation.stream || app.socket.isOpen)) goOn();
    else conversation.timer = setTimeout(goOn, ELSEWHERE_MS);
  }

  function keep(threadId) {
    conversation.threadId = threadId;
    keptInTab.put(`thread.${conversation.graphKey}`, threadId);
    following.follow(threadId);
    if (app.store.get().threadId !== threadId) app.store.set({ threadId });
  }

  // What the conversation's agent knows now.
  async function refreshAgent() {
    const { threadId } = conversation;
    if (!threadId || !(conversation.agent || chosenAgent(app.store.get()))) return;
    try {
      const { agent } = await getMessages(app.api, threadId);
      if (conversation.threadId === threadId) conversation.agent = agent ?? null;
      onChange();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // shown with the next answer
    }
  }

  // Ends the conversation with its agent.
  async function end(button) {
    const { threadId } = conversation;
    button.disabled = true;
    try {
      const agent = await endThread(app.api, threadId);
      if (conversation.threadId === threadId) conversation.agent = agent;
      onChange();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
      button.disabled = false;
      refreshAgent();
    }
  }

  async function refreshTotals() {
    const { threadId } = conversation;
    if (!threadId) return;
    try {
      const mine = (await listThreads(app.api, conversation.agent ? null : conversation.graphKey)).find((one) => one.threadId === threadId);
      if (!mine || conversation.threadId !== threadId) return;
      conversation.title = mine.title || conversation.title;
      app.store.set({ usage: { tokens: mine.totalTokens, cost: mine.totalCost } });
      onChange();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // sums are no reason to disturb
    }
  }
}
