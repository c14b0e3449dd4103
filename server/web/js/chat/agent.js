// Who answers a conversation: an agent chosen for a new one, and what a conversation with one knows and owes.

import { createDeliveries } from "../agents/deliveries.js";
import { createParts, h } from "../dom.js";
import { timeText } from "../names.js";
import { mayAudit } from "../roles.js";

// Returns the agents with which a conversation may begin here. Pure.
export function agentsFor(agents, graphKey) {
  return (agents ?? []).filter(({ state, channels, graphs }) => state === "running" && (channels ?? ["chat"]).includes("chat") && (!graphs?.length || graphs.includes(graphKey)));
}

// The agent that a person chose, if a conversation may begin with it; null: the assistant of the graph answers.
export function chosenAgent({ agents, agentChosen, graphKey }) {
  return agentsFor(agents, graphKey).find((one) => one.id === agentChosen) ?? null;
}

// The tool calls of a conversation: what became of each, and how long it took.
export function toolLines({ t }, tools) {
  const facts = ({ ok, ms, status, isRunning }) => [t(isRunning ? "tool.running" : `agents.ok.${ok ?? "open"}`), ms !== undefined && t("agents.ms", { n: ms }), status && `HTTP ${status}`];
  return h("ul.deliveries", tools.map((one) => h("li", h("code", one.name), h("span.thread-facts", facts(one).filter(Boolean).join(" · ")))));
}

// The chooser of a new conversation.
export function agentPicker({ t, store }) {
  const { agents, graphKey } = store.get();
  const chosen = chosenAgent(store.get())?.id ?? "";
  const option = (value, text) => h("option", { value, selected: value === chosen }, text);
  const select = h("select", option("", t(graphKey ? "agents.nobody" : "agents.choose")), agentsFor(agents, graphKey).map((one) => option(one.id, one.name)));
  select.addEventListener("change", () => store.set({ agentChosen: select.value || null }));
  return h("label.agent-picker", h("span", t("agents.who")), select);
}

// Returns `{element, draw()}`: the agent of a stored conversation with its values, tools, end and deliveries.
export function createAgentFacts(app, conversation) {
  const { t, store } = app;
  const element = h("div.chat-agent", { hidden: true });
  const drawParts = createParts(element);
  let deliveries = null;
  let isOpen = false;
  return { element, draw };

  function draw() {
    const { agent, threadId } = conversation;
    element.hidden = !agent;
    if (!agent) return drawParts([]);
    if (deliveries?.of !== threadId) deliveries = mayAudit(store.get().me) ? { of: threadId, ...createDeliveries(app, { callId: threadId }, { isQuiet: true }) } : null;
    if (isOpen) deliveries?.load();
    return drawParts([
      { key: "line", facts: [store.get().lang, JSON.stringify(agent), conversation.agentName], make: line },
      { key: "more", facts: [store.get().lang, JSON.stringify(agent), threadId], make: more },
    ]);
  }

  function line() {
    const { agent } = conversation;
    const flags = Object.entries(agent.flags ?? {}).filter(([, isTrue]) => isTrue).map(([name]) => h("span.tag", name));
    const ended = agent.endedTime ? h("p.agent-ended", { role: "status" }, t("agents.ended", { reason: t(`agents.end.${agent.endReason}`), time: timeText(agent.endedTime, store.get().lang) }), " ", h("strong", agent.outcome ? t("agents.outcome", { outcome: agent.outcome }) : t("agents.no_outcome"))) : "";
    return h("div.agent-line", h("div.agent-name", h("strong", conversation.agentName), " ", h("span.muted", t("agents.version", { version: agent.version })), " ", flags),
      agent.endedTime ? ended : h("button", { type: "button", onclick: (event) => conversation.end(event.currentTarget) }, t("agents.end_it")));
  }

  function more() {
    const { agent } = conversation;
    const about = (key, ...content) => [h("h3", t(key)), ...content];
    return h("details", { open: isOpen, ontoggle: (event) => (isOpen = event.currentTarget.open) && deliveries?.load() }, h("summary", t("agents.more")),
      agent.tools?.length ? about("agents.tools", toolLines(app, agent.tools)) : "",
      about("agents.ctx", h("pre.code-shown", { tabindex: "0" }, JSON.stringify(agent.ctx ?? {}, null, 2))),
      deliveries ? about("agents.deliveries", deliveries.element) : "");
  }
}
