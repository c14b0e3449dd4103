// The chat panel: its head, the log, the composer, and the conversation that joins them.

import { ApiError } from "../api.js";
import { createParts, h, replace } from "../dom.js";
import { isPaused } from "../automations/standing.js";
import { icon } from "../icons.js";
import { costText } from "../names.js";
import { mayEdit } from "../roles.js";
import { agentPicker, agentsFor, chosenAgent, createAgentFacts } from "./agent.js";
import { createComposer } from "./composer.js";
import { createConversation } from "./conversation.js";
import { renameChips } from "./links.js";
import { createLog } from "./log.js";
import { getMessages } from "./service.js";
import { createWelcome } from "./welcome.js";

const MAX_NAME = 80; // of an automation

export function mountChat(app, element) {
  const { store } = app;
  const head = h("div.chat-head");
  const drawParts = createParts(head);
  const banner = h("div.chat-banner", { role: "note", hidden: true });
  const paused = h("p.chat-paused", { role: "status", hidden: true });
  const log = createLog(app);
  const composer = createComposer(app, { onSend: (text, more) => conversation.ask(text, more), onStop: () => conversation.stop() });
  const conversation = createConversation(app, { log, composer, onChange: draw });
  const facts = createAgentFacts(app, conversation);
  app.chat = conversation;
  element.classList.add("chat");
  replace(element, head, banner, paused, facts.element, log.element, composer.element);

  store.on((state) => [state.me, state.usage, state.lang, state.offline].map(String).join() + (state.me?.model ?? "") + (state.usage?.tokens ?? ""), draw);
  store.on("graphKey", () => conversation.enterGraph());
  store.on("graphState", (state) => {
    if (state === "ready") conversation.enterGraph();
    draw();
  });
  store.on("threadId", (threadId) => threadId && threadId !== conversation.threadId && conversation.open(threadId));
  store.on("nodes", () => renameChips(app, log.content));
  store.on("lang", () => drawWelcome());
  for (const part of ["agents", "agentChosen"]) store.on(part, draw);
  const stopTrace = store.on("traceShown", async (threadId) => {
    if (!threadId) return;
    stopTrace(); // from now on the module itself follows
    (await import("../trace/index.js")).followTrace(app);
  });
  for (const part of ["automations", "lang"]) store.on(part, drawPaused);
  draw();
  return conversation;

  function draw() {
    drawHead();
    drawBanner();
    drawWelcome();
    facts.draw();
    composer.setEnabled(conversation.mayAsk, conversation.agent?.endedTime ? "agents.is_over" : "chat.no_graph");
    composer.setBusy(conversation.isBusy);
  }

  function drawHead() {
    const { me, usage, lang, graphKey, agents } = store.get();
    const { t } = app;
    const chosen = conversation.isEmpty && chosenAgent(store.get());
    const said = [
      conversation.agentId ? conversation.agentName : me && !me.offline && t("chat.answers", { model: me.model }),
      usage?.tokens && t("chat.thread_tokens", { n: usage.tokens }),
      usage?.tokens && usage.cost == null ? t("usage.cost_unknown") : usage?.cost > 0 && costText(usage.cost, lang),
    ].filter(Boolean);
    const title = conversation.title || t("chat.new_title");
    const isNew = conversation.isEmpty;
    const mayKeep = !isNew && graphKey && conversation.threadId && !conversation.agent && mayEdit(me);
    const choices = isNew ? agentsFor(agents, graphKey).map((one) => `${one.id} ${one.name}`).join() : "";
    drawParts([
      { key: "title", facts: [title, said.join()], make: () => h("div.chat-title", h("h2", { title }, title), h("p.chat-facts", said.join(" · "))) },
      ...(choices ? [{ key: "who", facts: [lang, choices, chosen?.id, graphKey], make: () => agentPicker(app) }] : []),
      ...(conversation.tried && !conversation.isBusy ? [{ key: "tried", facts: [lang, conversation.tried], make: () => h("button", { type: "button", onclick: async () => (await import("../automations/making.js")).openAutomation(app, conversation.tried) }, icon("automations"), t("auto.tried")) }]
        : mayKeep ? [{ key: "keep", facts: [lang], make: () => iconButton("automations", t("auto.save_as"), keepAsAutomation) }] : []),
      ...(isNew ? [] : [{ key: "new", facts: [lang], make: () => iconButton("plus", t("chat.new"), () => conversation.startNew()) }]),
    ]);
  }

  function iconButton(name, label, onclick) {
    return h("button.icon-button", { type: "button", title: label, "aria-label": label, onclick }, icon(name));
  }

  // Makes an automation of what the person said in this conversation.
  async function keepAsAutomation() {
    const { threadId, title } = conversation;
    try {
      const { conversationHistory } = await getMessages(app.api, threadId);
      await (await import("../automations/making.js")).makeAutomation(app, { name: title.slice(0, MAX_NAME), messages: conversationHistory.filter((one) => one.role === "user") });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
  }

  // Says which runs of this graph make way for the conversation.
  function drawPaused() {
    const { automations, graphKey } = store.get();
    const names = (automations ?? []).filter((one) => one.graphKey === graphKey && one.last && isPaused(one.last)).map((one) => one.name);
    paused.hidden = !names.length;
    paused.textContent = names.length ? app.t("auto.made_way", { n: names.length, names: names.join(", ") }) : "";
  }

  // The first answer of the rules says it too: then it is said there alone.
  function drawBanner() {
    const { offline } = store.get();
    const { t } = app;
    banner.hidden = !offline || log.content.textContent.includes(t("offline.title"));
    if (banner.hidden || banner.dataset.lang === store.get().lang) return;
    banner.dataset.lang = store.get().lang;
    replace(banner, h("details", h("summary", t("offline.title")), h("p", t("offline.what")), h("p", t("offline.how")),
      h("pre", { tabindex: "0" }, "export OPENAI_API_KEY=…\nexport ANTHROPIC_API_KEY=…\nexport NODIUS_PROVIDER=ollama"), h("p", t("offline.then"))));
  }

  function drawWelcome() {
    const old = log.content.querySelector(".welcome");
    if (!conversation.isEmpty) old?.remove();
    else {
      old?.remove();
      log.content.append(createWelcome(app, (text) => conversation.ask(text), chosenAgent(store.get())));
    }
  }
}
