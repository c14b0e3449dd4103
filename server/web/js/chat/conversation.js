/**
 * One conversation: questions go out, turns come in, and what a turn waits for is decided here or elsewhere.
 *
 * Approvals are shown as the server has them, never as a message tells them.
 */

import { h, replace } from "../dom.js";
import { fromDocument, isOpen } from "../review/approvals.js";
import { describeAction } from "../review/describe.js";
import { getApproval } from "../review/service.js";
import { endingOf } from "./ending.js";
import { failed, LOOK_AGAIN_MS, reconnected, TITLE_CHARS } from "./failures.js";
import { createFollowing } from "./following.js";
import { remember, remembered } from "./memory.js";
import { createProposals } from "./proposals.js";
import { getMessages, listThreads } from "./service.js";
import { showStored } from "./stored.js";
import { createQuestion, createTurn } from "./turn.js";

const ELSEWHERE_MS = 5000;

export function createConversation(app, parts) {
  return new Conversation(app, parts);
}

class Conversation {
  constructor(app, { log, composer, onChange }) {
    Object.assign(this, { app, t: app.t, log, composer, onChange });
    this.following = createFollowing(this);
    this.clear();
    app.socket.on("open", () => reconnected(this));
  }

  clear() {
    this.stream?.close();
    this.earlier?.close();
    clearTimeout(this.timer);
    this.groups?.forEach((group) => group.destroy());
    Object.assign(this, { threadId: null, title: "", turn: null, stream: null, earlier: null, phase: "idle", groups: [], limit: null, isLost: false, request: null, stamp: "" });
    replace(this.log.content);
  }

  get isBusy() {
    return this.phase === "busy";
  }

  get isEmpty() {
    return !this.log.content.querySelector(".turn") && this.phase !== "loading";
  }

  get graphKey() {
    return this.app.store.get().graphKey;
  }

  /** Show the conversation that this tab last had about the graph, or none. */
  enterGraph() {
    const { graphKey, graphState, threadId } = this.app.store.get();
    if (graphKey === this.shownGraph) return;
    if (graphState !== "ready" && graphKey) {
      this.leave();
      this.clear();
      this.following.follow(null);
      this.shownGraph = null;
      this.onChange();
      return;
    }
    this.shownGraph = graphKey;
    this.clear();
    this.onChange();
    const kept = threadId ?? remembered(this.graphKey);
    if (graphKey && kept) this.open(kept, { isQuiet: !threadId });
  }

  startNew() {
    this.leave();
    this.clear();
    this.following.follow(null);
    remember(this.graphKey, null);
    this.app.store.set({ threadId: null, usage: null });
    this.onChange();
    this.composer.focus();
  }

  // ---- asking

  ask(text) {
    if (this.isBusy || !this.graphKey) return;
    this.log.content.append(createQuestion(this.app, text));
    this.title ||= text.slice(0, TITLE_CHARS);
    this.newTurn();
    this.composer.last = text;
    this.log.content.querySelector(".welcome")?.remove();
    this.sendChat(text);
    this.log.toEnd();
  }

  newTurn() {
    this.turn = createTurn(this.app, this.log);
    this.turn.isLive = true;
    this.log.content.append(this.turn.element);
  }

  sendChat(text) {
    const message = { type: "ai:chat", graphKey: this.graphKey, message: text };
    this.send(this.threadId ? { ...message, threadId: this.threadId } : message, { kind: "chat", text });
  }

  /** Go on where the thread waits. `fields` as in `ai:resume`. */
  resume(fields) {
    if (!this.turn) this.newTurn();
    this.turn.isLive = true;
    this.send({ type: "ai:resume", threadId: this.threadId, ...fields }, { kind: "resume", fields });
  }

  send(message, request) {
    clearTimeout(this.timer);
    const turn = this.turn;
    Object.assign(this, { request, limit: null, isLost: false });
    turn.showAfter();
    turn.segment = null;
    this.enter("busy");
    turn.working();
    // After a decision the server may go on by itself, under the id of before: whichever speaks first is heard.
    this.earlier?.close();
    this.earlier = request.kind === "resume" ? this.stream : (this.stream?.close(), null);
    const stream = this.app.socket.stream(message, (event) => this.hears(stream, event) && this.take(turn, event));
    this.stream = stream;
    stream.done.catch((error) => {
      if (this.stream === stream && this.isBusy && turn === this.turn) failed(this, turn, { error: error.message, code: error.code, retryable: error.retryable });
    });
  }

  /** Whether an event is of the stream that answers; the one that did not is left. */
  hears(stream, event) {
    if (stream === this.earlier && event.type !== "ai:error") {
      this.stream.close();
      this.stream = stream;
      this.earlier = null;
    } else if (stream === this.stream && this.earlier && event.type !== "ai:error") {
      this.earlier.close();
      this.earlier = null;
    }
    return stream === this.stream;
  }

  stop() {
    if (this.isLookingOn) this.following.stop();
    else this.stream?.cancel(this.threadId ?? undefined);
  }

  /** Show something else: a turn of this tab is stopped, another tab's goes on. */
  leave() {
    if (this.isBusy && !this.isLookingOn) this.stop();
  }

  /** Another tab runs the next turn: nothing is waited for here. */
  release() {
    clearTimeout(this.timer);
    this.stream?.close();
    this.earlier?.close();
    this.stream = this.earlier = null;
  }

  /** Show another tab's turn as it comes. */
  lookOn(turn) {
    Object.assign(this, { request: { kind: "resume", fields: { approved: true } }, limit: null, isLookingOn: true });
    turn.isLive = true;
    turn.showAfter();
    turn.segment = null;
    this.enter("busy");
    turn.working();
    this.log.stay();
  }

  enter(phase) {
    this.phase = phase;
    if (phase !== "busy") this.isLookingOn = false;
    this.onChange();
  }

  // ---- events

  take(turn, event) {
    if (this.graphKey !== this.shownGraph && this.shownGraph) return;
    if (!this.isBusy && !["ai:complete", "ai:error"].includes(event.type)) {
      this.enter("busy"); // a decision made elsewhere: the turn goes on
      turn.working();
    }
    if (event.type === "ai:tool_limit") this.limit = event;
    else if (event.type === "ai:complete") this.completed(turn, event);
    else if (event.type === "ai:error") failed(this, turn, event);
    else turn.take(event);
  }

  completed(turn, event) {
    if (event.threadId) this.keep(event.threadId);
    turn.looked.show(event.contextNodes, event.wordsOnly === true);
    const ending = endingOf(event, this.limit);
    this.limit = null;
    if (ending.kind === "answer") this.answered(turn, ending);
    else turn.end();
    if (ending.kind === "limit") this.atLimit(turn, ending);
    if (ending.kind === "proposals") this.showProposals(turn, ending, event.fullText);
    this.refreshTotals();
  }

  answered(turn, { text, isStopped }) {
    if (turn.isEmpty && text.trim()) turn.addText(text);
    turn.end();
    if (isStopped) turn.note(this.t("chat.stopped"));
    this.enter("idle");
  }

  atLimit(turn, { used, max }) {
    const button = (key, kind, approved) => h("button", { type: "button", class: kind, onclick: () => this.resume({ approved }) }, this.t(key));
    turn.note(this.t("limit.text", { used, max }), button("limit.go_on", "primary", true), button("limit.answer", "", false));
    this.enter("limit");
    this.log.say(this.t("limit.text", { used, max }));
  }

  async showProposals(turn, ending, fullText) {
    this.enter("waiting");
    const found = await Promise.all(ending.approvals.map((one) => this.known(one.id)));
    const approvals = found.filter((one) => one && one.threadId === this.threadId);
    if (!approvals.length) {
      if (turn.isEmpty) turn.addText(fullText);
      turn.end();
      this.enter("idle");
      return;
    }
    const group = this.groupOf(turn);
    approvals.forEach((approval) => group.add(approval));
    if (!group.isOpen()) this.settled(turn, approvals.at(-1), false); // decided while the message was on its way
    this.log.stay();
    this.log.say(this.t("chat.proposals_wait", { n: approvals.filter(isOpen).length }));
  }

  async known(id) {
    try {
      return fromDocument(await getApproval(this.app.api, id));
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      return null;
    }
  }

  groupOf(turn) {
    if (turn.group?.isOpen()) return turn.group;
    turn.draw();
    turn.segment = null;
    turn.group = createProposals(this.app, {
      onSettled: (approval, isOurs) => this.settled(turn, approval, isOurs),
      onAskAgain: (approval) => this.composer.fill(this.t("chat.ask_again", { what: describeAction(this.app, approval.action, approval.preview) })),
    });
    this.groups.push(turn.group);
    turn.body.append(turn.group.element);
    return turn.group;
  }

  /** All is decided: the turn goes on. After a decision elsewhere the server sees to it, where it still knows us. */
  settled(turn, approval, isOurs) {
    if (turn !== this.turn || !["waiting", "busy"].includes(this.phase)) return;
    clearTimeout(this.timer);
    const goOn = () => {
      if (this.phase !== "waiting" || turn !== this.turn) return;
      if (isOurs) this.log.toEnd();
      this.resume({ approved: approval.status !== "rejected", approvalId: approval.id });
    };
    if (isOurs || !(this.stream || this.app.socket.isOpen)) goOn();
    else this.timer = setTimeout(goOn, ELSEWHERE_MS);
  }

  // ---- stored conversations

  /** Show a stored conversation. `isQuiet`: one that is gone is no news. */
  async open(threadId, { isQuiet = false, isForced = false } = {}) {
    if (this.isBusy && threadId === this.threadId && !isForced) return;
    this.leave();
    this.clear();
    Object.assign(this, { threadId, phase: "loading" });
    this.shownGraph = this.graphKey;
    this.onChange();
    this.log.content.append(h("p", { class: "notice-line", role: "status" }, this.t("chat.loading")));
    let stored;
    try {
      stored = await getMessages(this.app.api, threadId);
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      this.notOpened(threadId, error, isQuiet);
      return;
    }
    if (this.threadId !== threadId || this.phase !== "loading") return;
    await this.show(threadId, stored);
  }

  async show(threadId, stored) {
    replace(this.log.content);
    this.phase = "idle";
    this.stamp = stampOf(stored);
    await showStored(this, stored);
    this.keep(threadId);
    this.onChange();
    this.log.toEnd();
    this.refreshTotals();
  }

  notOpened(threadId, error, isQuiet) {
    if (this.threadId !== threadId) return;
    this.clear();
    if (error.status === 404) remember(this.graphKey, null);
    this.app.store.set({ threadId: null });
    if (!isQuiet || error.status !== 404) this.app.toast("error", error.message);
    this.onChange();
  }

  /** Somebody else's turn is under way in this thread: look again until it has ended. */
  watchElsewhere() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lookElsewhere(), LOOK_AGAIN_MS);
  }

  /** Read the thread again; what is shown is drawn anew only if there is more of it. */
  async lookElsewhere() {
    const { threadId } = this;
    const isStill = () => this.threadId === threadId && this.phase === "elsewhere";
    if (!isStill()) return;
    let stored = null;
    try {
      stored = await getMessages(this.app.api, threadId);
    } catch (error) {
      if (error.name !== "ApiError") throw error; // the next look may do better
      if (error.status === 404) return this.notOpened(threadId, error, true);
    }
    if (!isStill()) return undefined;
    if (!stored || stampOf(stored) === this.stamp) return this.watchElsewhere();
    this.clear();
    this.threadId = threadId;
    return this.show(threadId, stored);
  }

  keep(threadId) {
    this.threadId = threadId;
    remember(this.graphKey, threadId);
    this.following.follow(threadId);
    if (this.app.store.get().threadId !== threadId) this.app.store.set({ threadId });
  }

  async refreshTotals() {
    const { threadId } = this;
    if (!threadId) return;
    try {
      const mine = (await listThreads(this.app.api, this.graphKey)).find((one) => one.threadId === threadId);
      if (!mine || this.threadId !== threadId) return;
      this.title = mine.title || this.title;
      this.app.store.set({ usage: { tokens: mine.totalTokens, cost: mine.totalCost } });
      this.onChange();
    } catch (error) {
      if (error.name !== "ApiError") throw error; // sums are no reason to disturb
    }
  }
}

/** What changes with every step of a stored conversation. */
function stampOf({ status, conversationHistory, pendingInterrupt }) {
  const last = conversationHistory.at(-1);
  return JSON.stringify([status, conversationHistory.length, last?.content?.length, (pendingInterrupt?.approvals ?? []).map((one) => one.id)]);
}
