// One run: where it stands, what it reported, what it proposed, what was said, and what a person can do with it.

import { ApiError } from "../api.js";
import { createProposals } from "../chat/proposals.js";
import { createTurn } from "../chat/turn.js";
import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { isOpen } from "../review/approvals.js";
import { loadApprovals } from "../review/book.js";
import { mayEdit, mayManage } from "../roles.js";
import { threeOf, timeElement, usedText } from "./facts.js";
import { watchRuns } from "./news.js";
import { reportOf, saidIn, STILL } from "./run-parts.js";
import { actOnRun, getRun } from "./service.js";
import { isOver, stepsOf } from "./standing.js";

const SEARCHED = 200;

// Returns the view: `element`, `destroy()`. `onBack()` leaves it, `onChange()` is called after an action.
export function createRunView(app, sessionId, { onBack, onChange }) {
  const { t, store } = app;
  const top = h("div.auto-run-top");
  const proposals = createProposals(app, { onAllDecided: () => (look(), onChange()) });
  const said = h("div.auto-said");
  const [drawTop, drawSaid] = [top, said].map(createParts);
  const element = h("section.auto-run-view", { "aria-busy": "true" }, top, proposals.element, said);
  const live = h("div.auto-live");
  element.append(live);
  const view = { run: null, approvals: [], error: null, isGone: false, stream: null, asked: 0, shown: 0 }; // asked, shown: numbers of looks
  const stopWatching = watchRuns(app, look);
  const stops = [store.on("lang", draw), app.socket.on("open", follow)];
  draw();
  look().then(follow);
  return { element, destroy, focus: () => top.querySelector("button")?.focus() };

  function destroy() {
    view.isGone = true;
    stopWatching();
    stops.forEach((stop) => stop());
    if (view.stream) app.chat?.followAgain(); // a connection follows one thread
    proposals.destroy();
  }

  // Reads the run again. What an earlier look reads later is not shown: it may be older.
  async function look() {
    const number = ++view.asked;
    try {
      const run = await getRun(app.api, sessionId);
      const approvals = await loadApprovals(app, { threadId: sessionId, limit: SEARCHED });
      if (view.isGone || number < view.shown) return;
      Object.assign(view, { run, error: null, approvals, shown: number });
      view.approvals.toSorted((one, other) => one.created - other.created).forEach((approval) => proposals.add(approval));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      view.error = error;
    }
    if (!view.isGone) draw();
  }

  // Shows the words of a run as they come, after what is stored of it.
  function follow() {
    if (view.isGone || !app.socket.isOpen || !view.run || isOver(view.run)) return;
    let turn = null;
    const stream = view.stream = app.socket.stream({ type: "ai:follow", threadId: sessionId }, (event) => {
      if (stream !== view.stream || view.isGone) return;
      if (event.type === "ai:follow_turn" && event.here) replace(live, (turn = createTurn(app, STILL)).element);
      else if (["ai:follow_end", "ai:complete", "ai:error"].includes(event.type)) look().then(() => replace(live)); // it is stored
      else turn?.take(event);
    });
    stream.done.catch(() => {}); // what is stored says it
  }

  function draw() {
    const { lang, me, graphKey } = store.get();
    const { run, error } = view;
    const waiting = view.approvals.filter(isOpen).length;
    const part = (key, facts, make) => ({ key, facts: [lang, ...facts], make });
    element.setAttribute("aria-busy", String(!run && !error));
    drawTop([
      part("head", [run?.name], () => h("header.auto-run-head", h("button.icon-button", { type: "button", "aria-label": t("auto.back"), title: t("auto.back"), onclick: onBack }, icon("chevron")), h("h2", run?.name || t("auto.run_one")))),
      ...(error ? [part("error", [error], () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: look }, t("app.retry"))))] : []),
      ...(run ? [
        part("steps", [JSON.stringify(stepsOf(run))], steps),
        part("three", [run.phase, run.endReason, run.report?.outcome, waiting], () => threeOf(app, run, waiting)),
        part("facts", [JSON.stringify([run.usage, run.roundtrips, run.startedTime])], facts),
        part("acts", [run.phase, run.endReason, me?.role, graphKey], () => h("div.card-buttons", ...actions())),
        ...(run.report ? [part("report", [run.report.text, run.report.outcome], () => reportOf(app, run))] : []),
      ] : []),
    ]);
    if (!run) return;
    proposals.element.hidden = !view.approvals.length;
    drawSaid([part("said", [run.messages.length, run.notes.length], () => saidIn(app, run, { isOpen: said.querySelector("details")?.open ?? !run.report }))]);
  }

  function steps() {
    return h("ol.auto-steps", { "aria-label": t("auto.steps") }, stepsOf(view.run).map(({ name, state }) =>
      h("li", { class: `is-${state}`, "aria-current": ["now", "held"].includes(state) ? "step" : undefined }, h("span", t(`auto.step.${name}`)), h("span.sr-only", ` (${t(`auto.step_is.${state}`)})`))));
  }

  function facts() {
    const { run } = view;
    return h("p.card-meta", t(`auto.trigger.${run.trigger}`), " · ", timeElement(app, run.scheduledTime), run.referenceTime ? [" · ", t("auto.for_time"), " ", timeElement(app, run.referenceTime)] : "",
      ` · ${t("auto.calls", { n: run.roundtrips })} · ${usedText(app, run.usage)}`, run.model ? ` · ${run.model}` : "");
  }

  function actions() {
    const { run } = view;
    const { me } = store.get();
    const button = (key, glyph, action, body, kind) => h("button", { type: "button", class: kind, onclick: (event) => act(event.currentTarget, action, body) }, icon(glyph), t(key));
    const isOwn = mayManage(me, run);
    const mayGoOn = run.phase === "waiting_network_retry" || run.endReason === "NETWORK_ERROR";
    return [
      isOwn && run.phase === "waiting_completion_confirmation" ? button("auto.go_on", "retry", "confirm", { end: false }) : "",
      isOwn && mayGoOn ? button("auto.resume", "retry", "resume") : "",
      isOwn && !isOver(run) ? button("auto.stop", "stop", "stop", undefined, "quiet-danger") : "",
      isOwn && isOver(run) ? h("button", { type: "button", title: t("auto.retry_hint"), onclick: (event) => again(event.currentTarget) }, icon("retry"), t("auto.retry")) : "",
      run.startedTime ? h("button", { type: "button", onclick: () => store.set({ traceShown: sessionId }) }, icon("eye"), t("trace.open")) : "",
      mayEdit(me) ? h("button", { type: "button", onclick: (event) => goOn(event.currentTarget) }, icon("chat"), t("auto.as_chat")) : "",
    ];
  }

  async function act(button, action, body) {
    button.disabled = true;
    try {
      await actOnRun(app.api, sessionId, action, body);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    button.disabled = false;
    onChange();
    await look();
  }

  // Runs it again for the time of this run, and shows that run.
  async function again(button) {
    button.disabled = true;
    try {
      store.set({ runShown: (await actOnRun(app.api, sessionId, "retry")).sessionId });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
      button.disabled = false;
    }
    onChange();
  }

  // Copies the run into a conversation of this person, and shows that.
  async function goOn(button) {
    button.disabled = true;
    try {
      const { threadId } = await actOnRun(app.api, sessionId, "chat");
      if (view.run.graphKey !== store.get().graphKey) await app.live.open(view.run.graphKey);
      store.set({ panel: "chat", threadId });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
      button.disabled = false;
    }
  }
}
