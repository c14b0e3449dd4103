// One call: how it stands, what was said while it is said, what it looked at and proposed, its tools and deliveries.

import { createDeliveries } from "../agents/deliveries.js";
import { ApiError } from "../api.js";
import { toolLines } from "../chat/agent.js";
import { createLooked } from "../chat/looked.js";
import { createProposals } from "../chat/proposals.js";
import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { readApproval } from "../review/book.js";
import { mayAdminister, mayAudit } from "../roles.js";
import { createStrip } from "../strip.js";
import { agentName, callFacts, modelErrorText, recordingLines, standingText, transferLines } from "./facts.js";
import { isLive, knownOf, withNews } from "./known.js";
import { endCall, forgetCall, getCall } from "./service.js";

const OWN_FLAGS = ["had_conversation", "should_hangup"]; // every call has them

// Returns the view: `element`, `destroy()`, `focus()`. `onBack()` leaves it.
export function createCallView(app, callId, { onBack }) {
  const { t, store } = app;
  const top = h("div.auto-run-top");
  const said = h("div.call-said", { role: "log", "aria-label": t("calls.said") });
  const looked = createLooked(app);
  const proposals = createProposals(app, { onAllDecided: () => draw() });
  const deliveries = createDeliveries(app, { callId }, { isQuiet: true });
  const below = h("div.auto-run-top");
  const [drawTop, drawSaid, drawBelow] = [top, said, below].map(createParts);
  const element = h("section.auto-run-view.call-view", { "aria-busy": "true" }, top, said, looked.element, proposals.element, below);
  const view = { known: null, error: null, stream: null, isGone: false };
  const stops = [store.on("lang", draw), store.on("graphKey", draw), store.on("agents", draw), store.on("nodes", showSources), app.socket.on("open", follow), app.socket.on("ai:review", () => draw())];
  draw();
  look().then(follow);
  return { element, destroy, focus: () => top.querySelector("button")?.focus() };

  function destroy() {
    view.isGone = true;
    unfollow();
    stops.forEach((stop) => stop());
    proposals.destroy();
    app.canvas.light([]);
  }

  async function look() {
    try {
      const call = await getCall(app.api, callId);
      if (view.isGone) return;
      Object.assign(view, { known: knownOf(call, view.known), error: null });
      if (mayAudit(store.get().me)) deliveries.load();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      view.error = error;
    }
    if (!view.isGone) draw();
  }

  function unfollow() {
    if (!view.stream) return;
    view.stream.close();
    view.stream = null;
    if (app.socket.isOpen) app.socket.stream({ type: "call:follow", callId: "" }, () => {}).close();
  }

  // Follows the call while it goes on, with this connection and each one after it.
  function follow() {
    if (view.isGone || !app.socket.isOpen || !view.known || !isLive(view.known.call)) return;
    view.stream?.close();
    const stream = view.stream = app.socket.stream({ type: "call:follow", callId }, (event) => stream === view.stream && take(event));
    stream.done.catch(() => {}); // what is stored says it
  }

  function take(event) {
    view.known = withNews(view.known, event);
    if (event.type === "call:ended") look(); // the stored record says more
    draw();
  }

  function draw() {
    const { lang, graphKey, me } = store.get();
    const { known, error } = view;
    const part = (key, facts, make) => ({ key, facts: [lang, ...facts], make });
    element.setAttribute("aria-busy", String(!known && !error));
    const call = known?.call;
    drawTop([
      part("head", [call && agentName(app, call)], () => h("header.auto-run-head", h("button.icon-button", { type: "button", "aria-label": t("calls.back"), title: t("calls.back"), onclick: onBack }, icon("chevron")), h("h2", call ? agentName(app, call) : t("calls.one")))),
      ...(error ? [part("error", [error], () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: () => look().then(follow) }, t("app.retry"))))] : []),
      ...(call ? [
        part("three", [call.status, call.endReason, call.outcome, JSON.stringify(call.flags)], three),
        ...(call.modelError ? [part("model-error", [modelErrorText(app, call)], () => h("p.notice-line", { role: "status" }, modelErrorText(app, call)))] : []),
        part("facts", [callFacts(app, call)], () => h("p.card-meta", callFacts(app, call))),
        part("acts", [call.status, call.forgottenTime, me?.role, graphKey, known.graph], () => h("div.card-buttons", ...actions())),
      ] : []),
    ]);
    if (!known) return;
    drawWords(part);
    showSources();
    showProposals();
    drawBelow([
      ...(known.tools.length ? [part("tools", [JSON.stringify(known.tools)], () => h("section", h("h3", t("agents.tools")), toolLines(app, known.tools)))] : []),
      ...(call.transfers?.length ? [part("transfers", [JSON.stringify(call.transfers)], () => h("section", h("h3", t("calls.transfers")), h("ul", transferLines(app, call).map((each) => h("li", each)))))] : []),
      ...(call.recordings?.length ? [part("recordings", [JSON.stringify(call.recordings)], () => h("section", h("h3", t("calls.recordings")), h("ul", recordingLines(app, call).map((each) => h("li", each)))))] : []),
      ...(call.ctx ? [part("ctx", [JSON.stringify(call.ctx)], () => h("details.auto-budget", h("summary", t("calls.ctx")), h("pre.code-shown", { tabindex: "0" }, JSON.stringify(call.ctx, null, 2))))] : []),
      part("deliveries", [], () => h("section.call-deliveries", h("h3", t("agents.deliveries")), deliveries.element)),
    ]);
  }

  // Draws what was said; who has seen the last of it also sees what comes.
  function drawWords(part) {
    const { said: entries, call } = view.known;
    const { bottom = 0 } = said.lastElementChild?.getBoundingClientRect() ?? {};
    const isSeen = bottom > 0 && bottom <= innerHeight;
    const before = said.textContent.length;
    const shown = entries.filter((one) => one.text || one.unheard).map((one) => part(one.itemId, [JSON.stringify(one)], () => line(one)));
    drawSaid(shown.length ? shown : [part("none", [call.status], () => h("p.note", t(isLive(call) ? "calls.nothing_yet" : "calls.nothing")))]);
    if (isSeen && isLive(call) && said.textContent.length > before) said.lastElementChild.scrollIntoView({ block: "nearest" });
  }

  function three() {
    const { call } = view.known;
    const fact = (key, tone, text) => ({ label: t(key), tone, text });
    const flags = Object.entries(call.flags ?? {}).filter(([name, isTrue]) => isTrue && !OWN_FLAGS.includes(name)).map(([name]) => name).join(", ");
    return createStrip([fact(isLive(call) ? "auto.stands" : "auto.how_ended", isLive(call) ? "live" : "plain", standingText(app, call)),
      fact("calls.outcome", call.outcome ? "good" : "plain", call.outcome ?? "–"), fact("calls.flags", "plain", flags || "–")]);
  }

  function line({ role, text, unheard, isFinal, isInterrupted }) {
    return h("article.call-line", { class: `is-${role}${isFinal ? "" : " is-partial"}` }, h("span.call-role", t(`calls.role.${role}`)),
      h("p", text, unheard ? [" ", h("s", unheard)] : "", isInterrupted ? h("span.call-cut", ` ${t("calls.interrupted")}`) : ""));
  }

  function actions() {
    const { call, graph } = view.known;
    const button = (key, glyph, run, kind) => h("button", { type: "button", class: kind, onclick: (event) => act(event.currentTarget, run) }, icon(glyph), t(key));
    return [
      graph && graph !== store.get().graphKey ? button("calls.open_graph", "graph", () => app.live.open(graph)) : "",
      isLive(call) ? button("calls.end_it", "stop", () => endCall(app.api, callId), "quiet-danger") : "",
      mayAdminister(store.get().me) && !isLive(call) && !call.forgottenTime ? button("calls.forget", "trash", forget, "quiet-danger") : "",
    ];
  }

  async function act(button, run) {
    button.disabled = true;
    try {
      await run();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    button.disabled = false;
    if (!view.isGone) await look();
  }

  async function forget() {
    if (!(await app.confirm({ title: t("calls.forget_title"), text: t("calls.forget_text"), ok: t("calls.forget"), danger: true }))) return;
    const { recordings = [] } = await forgetCall(app.api, callId);
    app.toast("ok", recordings.length ? t("calls.forgotten_but", { ids: recordings.join(", ") }) : t("calls.forgotten"));
    onBack();
  }

  // Lights what the answer rests on while the call goes on, and names all of it.
  function showSources() {
    if (!view.known) return;
    const { nodes, lit, graph, call } = view.known;
    app.canvas.light(graph === store.get().graphKey && isLive(call) ? lit : []);
    looked.show(nodes);
  }

  async function showProposals() {
    proposals.element.hidden = !view.known.approvals.length;
    for (const id of view.known.approvals.filter((one) => !proposals.has(one))) {
      try {
        const approval = await readApproval(app, id);
        if (!view.isGone && !proposals.has(id)) proposals.add(approval);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error; // the next news bring it
      }
    }
  }
}
