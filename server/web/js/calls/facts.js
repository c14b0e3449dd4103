// What is said of a call in several places: who, when, how long, how it stands or ended.

import { h } from "../dom.js";
import { costText, timeText } from "../names.js";
import { isLive } from "./known.js";

export const agentName = ({ store }, call) => (store.get().agents ?? []).find((one) => one.id === call.agentId)?.name ?? call.agentId;

// Who is on the line: a number, or nobody knows.
export const callerText = ({ t }, call) => call.callerPhone ?? t(call.channel === "phone" ? "calls.withheld" : `calls.channel.${call.channel}`);

// Seconds as a clock shows them.
export const clockText = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

export function standingText({ t }, call) {
  return isLive(call) ? t(`calls.status.${call.status}`) : t(`calls.end.${call.endReason ?? "error"}`);
}

const WRONG = new Set(["error", "lost", "line_lost", "session_failed", "model_unreachable", "model_refused"]); // how a call should not end

// Returns how many of these calls go on, ended with an outcome, and went wrong. Pure.
export function countsOf(calls) {
  const ended = calls.filter((call) => !isLive(call));
  const wrong = ended.filter(({ endReason }) => WRONG.has(endReason));
  return { now: calls.length - ended.length, outcome: ended.filter(({ outcome }) => outcome).length, wrong: wrong.length };
}

// What the service of a model answered instead of doing what it was asked: its code, parameter and sentence.
export function modelErrorText({ t }, { modelError }) {
  if (!modelError) return "";
  const about = [modelError.code, modelError.param].filter(Boolean).join(", ");
  return t("agents.model_error", { sentence: modelError.message ? `${about}: ${modelError.message}` : about });
}

// When a call was, how long, and what it used.
export function callFacts(app, call) {
  const { t, store } = app;
  const { lang } = store.get();
  const { costUsd = 0, audioIn = 0, audioOut = 0, textIn = 0, textOut = 0 } = call.usage ?? {};
  const tokens = audioIn + audioOut + textIn + textOut;
  const cost = call.channel === "simulated" ? "" : tokens > 0 && costUsd === null ? t("usage.cost_unknown") : costUsd > 0 && costText(costUsd, lang); // nobody pays for a simulated one
  return [callerText(app, call), timeText(call.startedTime, lang), call.durationSec !== undefined && call.durationSec !== null && clockText(call.durationSec),
    call.latency?.firstAudioMs && t("calls.first_audio", { n: Math.round(call.latency.firstAudioMs) }), tokens > 0 && t("chat.tokens", { n: tokens }), cost].filter(Boolean).join(" · ");
}

const spoken = ({ seconds }) => (seconds ? ` · ${clockText(seconds)}` : "");

// Each attempt to reach somebody: who, how it ended, how long they spoke.
export function transferLines({ t }, { transfers = [] }) {
  return transfers.map((one) => `${one.destination}: ${t(`calls.transfer.${one.status || (one.answeredTime ? "answered" : "open")}`)}${spoken(one)}`);
}

// Each recording that the telephone service keeps.
export function recordingLines({ t }, { recordings = [] }) {
  return recordings.map((one) => `${one.sid}: ${t(`calls.recording.${one.status}`)}${spoken(one)}`);
}

// A call in the list.
export function callRow(app, call, onShow) {
  const { t } = app;
  return h("button.auto-run.call-row", { type: "button", class: isLive(call) ? "is-live" : undefined, dataset: { call: call.callId }, onclick: () => onShow(call.callId) },
    h("span.call-who", h("strong", agentName(app, call)), h("span.call-state", standingText(app, call))),
    call.modelError ? h("span.thread-facts", modelErrorText(app, call)) : "",
    h("span.thread-facts", callFacts(app, call), call.outcome ? ` · ${t("agents.outcome", { outcome: call.outcome })}` : ""));
}
