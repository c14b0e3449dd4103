// One answer as it comes: text, tools, proposals, usage, and how it ended.
//
// Tokens are drawn once a frame. An answer that waited for a decision goes on in the same turn.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { createMarkdown } from "../markdown.js";
import { costText, numberText } from "../names.js";
import { createLinks } from "./links.js";
import { createLooked } from "./looked.js";
import { createTool, isProposal } from "./tools.js";

const COPIED_MS = 1500;

// Returns a turn: `element`, `take(event)`, `end()`, and the parts that other modules add to it.
export function createTurn(app, log) {
  const { t } = app;
  const body = h("div.turn-body");
  const after = h("div.turn-after");
  const facts = h("p.turn-facts");
  const looked = createLooked(app);
  const busy = h("p.turn-busy", { role: "status" });
  const element = h("article.turn.is-assistant", { "aria-label": t("chat.assistant") }, body, busy, after, looked.element, facts);
  const tools = new Map();
  const link = createLinks(app);
  const turn = {
    element, body, looked, threadId: "", text: "", segment: null, frame: 0, said: 0, usage: { tokens: 0, cost: 0, isPriced: true, calls: 0 },
    get isEmpty() {
      return !turn.text.trim() && !tools.size;
    },
  };
  return Object.assign(turn, { take, working, end, addText, draw, startTool, showAfter, note, fail });

  // Takes an event of the turn, stored or live.
  function take(event) {
    if (event.type !== "ai:progress") busy.querySelector(".turn-reading")?.remove();
    switch (event.type) {
      case "ai:token":
        addText(event.token);
        break;
      case "ai:tool_start":
        startTool(event.toolCallId, event.toolName);
        break;
      case "ai:tool_result":
        finishTool(event.toolCallId, event);
        break;
      case "ai:progress":
        reading(event);
        break;
      case "ai:usage":
        use(event.usage);
        break;
      case "ai:complete":
        mark(event.notInGraph);
        turn.threadId = event.threadId ?? "";
        showUsage();
        break;
      default:
        break;
    }
    log.stay();
  }

  function working() {
    element.setAttribute("aria-busy", "true");
    replace(busy, h("span.dots", { "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("span.sr-only", t("chat.thinking")));
  }

  // The model is loaded, or still reads what it was asked: say how far it has come.
  function reading({ promptRead, promptTokens, loading }) {
    const text = loading ? t("model_loading") : t("chat.reading", { done: promptRead, total: promptTokens });
    const shown = busy.querySelector(".turn-reading");
    if (shown) shown.textContent = text;
    else busy.append(h("span.turn-reading.note", text));
  }

  // Draws what is left and show that nothing more is under way; tools without an answer get `state`.
  function end(state = "stopped") {
    draw();
    element.removeAttribute("aria-busy");
    replace(busy);
    for (const tool of tools.values()) if (tool.state === "running") tool.setState(isProposal(tool.name) || tool.name === "ask_person" ? "waiting" : state);
    if (state === "stopped") fold();
    sayRest();
    showUsage();
  }

  function addText(text) {
    if (!text) return;
    if (!turn.segment) {
      if (!text.trim()) return;
      const element = h("div.md");
      body.append(element);
      turn.segment = { text: "", view: createMarkdown(element, markdownOptions()) };
    }
    turn.segment.text += text;
    turn.text += text;
    if (!turn.frame) turn.frame = requestAnimationFrame(() => draw());
  }

  function markdownOptions() {
    return { link: link, copyLabel: t("chat.copy"), copy: (text, button) => copy(text, button) };
  }

  function draw() {
    cancelAnimationFrame(turn.frame);
    turn.frame = 0;
    if (!turn.segment) return;
    turn.segment.view.update(turn.segment.text.trimStart());
    sayParagraphs();
    log.stay();
  }

  // Lets a screen reader hear whole paragraphs, not single words.
  function sayParagraphs() {
    if (!element.hasAttribute("aria-busy")) return;
    const end = turn.text.lastIndexOf("\n\n");
    if (end > turn.said) sayUntil(end);
  }

  function sayRest() {
    if (turn.isLive && turn.said < turn.text.length) sayUntil(turn.text.length);
  }

  function sayUntil(end) {
    const words = turn.text.slice(turn.said, end).replace(/\{\{[^{}]*:([^{}]*)\}\}/g, "$1").replace(/[`*#|_]/g, "").trim();
    turn.said = end;
    if (words) log.say(words);
  }

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = t("chat.copied");
    } catch {
      app.toast("warn", t("chat.not_copied"));
      return;
    }
    setTimeout(() => (button.textContent = t("chat.copy")), COPIED_MS);
  }

  function startTool(id, name, args) {
    if (tools.has(id)) return;
    draw();
    turn.segment = null;
    const tool = createTool(app, { name, args });
    tools.set(id, tool);
    const last = body.lastElementChild;
    const group = last?.classList.contains("tools") ? last : h("div.tools");
    if (group !== last) body.append(group);
    group.append(tool.element);
  }

  function finishTool(id, { result, arguments: args, isError }) {
    tools.get(id)?.finish({ result, args, isError });
  }

  // Says below an answer what it claims that the graph does not have.
  function mark(claims) {
    if (typeof claims?.note !== "string") return;
    draw();
    turn.segment = null;
    body.append(h("p.turn-claims", { role: "note" }, icon("warn"), claims.note));
    if (turn.isLive) log.say(claims.note);
  }

  function use(usage) {
    const { tokens, cost, isPriced, calls } = turn.usage;
    turn.usage = {
      tokens: tokens + (usage.totalTokens ?? 0),
      cost: cost + (usage.cost ?? 0),
      isPriced: isPriced && usage.cost !== undefined,
      calls: calls + 1,
    };
  }

  function showUsage() {
    const { tokens, cost, isPriced, calls } = turn.usage;
    const isUsed = calls > 0 && tokens > 0;
    if (!isUsed && !turn.threadId) return;
    const { lang } = app.store.get();
    const parts = isUsed ? [t("chat.tokens", { n: tokens })] : []; // an answer of rules uses none
    if (isUsed && !isPriced) parts.push(t("usage.cost_unknown"));
    else if (cost > 0) parts.push(costText(cost, lang));
    replace(facts, parts.join(" · "), " ", h("button.link", { type: "button", onclick: trace }, t("trace.open")));
    if (isUsed) facts.title = t("chat.calls", { n: calls, tokens: numberText(tokens, lang) });
  }

  async function trace() {
    const threadId = turn.threadId || app.store.get().threadId;
    if (threadId) app.store.set({ traceShown: threadId });
  }

  // Several tools of a finished answer are one line, opened on demand. A failure that a later step made good
  // (a name looked for as a key first) is said inside only.
  function fold() {
    for (const group of body.querySelectorAll("div.tools")) {
      if (group.childElementCount < 2) continue;
      const isFailed = group.lastElementChild.matches(".is-failed, :has(.is-failed)");
      const label = t("tool.several", { n: group.childElementCount }) + (isFailed ? ` · ${t("tool.failed")}` : "");
      const folded = h("details.tools-fold", h("summary", label));
      group.replaceWith(folded);
      folded.append(group);
    }
  }

  // Puts a box under the answer: an error, a limit, a note. The one before goes.
  function showAfter(...children) {
    replace(after, ...children);
    log.stay();
  }

  function note(text, ...buttons) {
    showAfter(h("div.turn-note", h("p", text), buttons.length ? h("div.card-buttons", ...buttons) : ""));
  }

  function fail(text, ...buttons) {
    showAfter(h("div.turn-error", { role: "alert" }, icon("error"), h("div", h("p", text), buttons.length ? h("div.card-buttons", ...buttons) : "")));
  }
}

// What a person said.
export function createQuestion(app, text) {
  return h("article.turn.is-user", { "aria-label": app.t("chat.you") }, h("div.bubble", text));
}
