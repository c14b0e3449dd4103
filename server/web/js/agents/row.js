// An agent in the list: its name, where it stands, and how it is.

import { modelErrorText } from "../calls/facts.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { mayAdminister } from "../roles.js";
import { createStrip } from "../strip.js";

const TONE = { running: "good", starting: "live", draining: "warn", stopped: "plain", failed: "bad", ok: "good", degraded: "warn" };

// Where an agent stands and how it is: two things, never one.
export function standingOf({ t }, { state, health, calls, version }) {
  const fact = (key, value, text) => ({ label: t(key), tone: TONE[value] ?? "plain", text });
  return createStrip([fact("agents.state", state, t(`agents.state.${state}`)), fact("agents.health", state === "stopped" ? "plain" : health, state === "stopped" ? "–" : t(`agents.health.${health}`)),
    fact("agents.open", "", t("agents.open_n", { n: calls ?? 0, version }))]);
}

// Why an agent is not well, in the service's words where it gave some.
export function reasonsOf(app, { reasons = [], problems = [], modelError }) {
  const { t } = app;
  const named = new Set(problems.map((one) => one.code));
  const lines = [...problems.map((one) => `${one.where}: ${one.what}`), ...reasons.filter((one) => !named.has(one)).map((one) => (t.has(`agents.reason.${one}`) ? t(`agents.reason.${one}`) : one)), ...(modelError ? [modelErrorText(app, { modelError })] : [])];
  return lines.length ? h("ul.agent-reasons", lines.map((line) => h("li", line))) : "";
}

export function startButton(app, agent, act) {
  const isOn = agent.desired === "running";
  const key = isOn ? "agents.stop" : "agents.start";
  return h("button", { type: "button", class: isOn ? "quiet-danger" : undefined, disabled: !mayAdminister(app.store.get().me), "aria-label": `${app.t(key)}: ${agent.name}`, onclick: (event) => act.toggle(agent, event.currentTarget) }, icon(isOn ? "stop" : "Play"), app.t(key));
}

export function createAgentRow(app, agent, act) {
  const { t } = app;
  const heading = `agent-${agent.id}`;
  return h("article.auto", { class: agent.desired === "running" ? undefined : "is-paused", "aria-labelledby": heading, dataset: { agent: agent.id } },
    h("header.auto-head", h("h3", { id: heading }, agent.name)),
    h("p.card-meta", [agent.id, agent.type, (agent.channels ?? []).map((one) => t(`agents.channel.${one}`)).join(", "), agent.source && t("agents.source", { source: agent.source })].filter(Boolean).join(" · ")),
    standingOf(app, agent), reasonsOf(app, agent),
    h("div.card-buttons", h("button", { type: "button", "aria-label": `${t("agents.show")}: ${agent.name}`, onclick: () => act.show(agent.id) }, icon("eye"), t("agents.show")), startButton(app, agent, act)));
}
