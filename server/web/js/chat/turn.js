/**
 * One answer as it comes: text, tools, proposals, usage, and how it ended.
 *
 * Tokens are drawn once a frame. An answer that waited for a decision goes on in the same turn.
 */

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { createMarkdown } from "../markdown.js";
import { costText, numberText } from "../names.js";
import { createLinks } from "./links.js";
import { createLooked } from "./looked.js";
import { createTool, isProposal } from "./tools.js";

const COPIED_MS = 1500;

/** Return a turn: `element`, `take(event)`, `end()`, and the parts that other modules add to it. */
export function createTurn(app, log) {
  return new Turn(app, log);
}

class Turn {
  constructor(app, log) {
    Object.assign(this, { app, t: app.t, log });
    this.body = h("div", { class: "turn-body" });
    this.after = h("div", { class: "turn-after" });
    this.facts = h("p", { class: "turn-facts" });
    this.looked = createLooked(app);
    this.busy = h("p", { class: "turn-busy", role: "status" });
    this.element = h("article", { class: "turn is-assistant", "aria-label": app.t("chat.assistant") }, this.body, this.busy, this.after, this.looked.element, this.facts);
    this.tools = new Map();
    this.usage = { tokens: 0, cost: 0, isPriced: true, calls: 0 };
    this.text = "";
    this.segment = null;
    this.frame = 0;
    this.said = 0;
    this.link = createLinks(app);
  }

  /** Take an event of the turn, stored or live. */
  take(event) {
    if (event.type !== "ai:progress") this.busy.querySelector(".turn-reading")?.remove();
    switch (event.type) {
      case "ai:token":
        this.addText(event.token);
        break;
      case "ai:tool_start":
        this.startTool(event.toolCallId, event.toolName);
        break;
      case "ai:tool_result":
        this.finishTool(event.toolCallId, event);
        break;
      case "ai:progress":
        this.reading(event);
        break;
      case "ai:usage":
        this.use(event.usage);
        break;
      default:
        break;
    }
    this.log.stay();
  }

  working() {
    this.element.setAttribute("aria-busy", "true");
    replace(this.busy, h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("span", { class: "sr-only" }, this.t("chat.thinking")));
  }

  /** The model still reads what it was asked: say how far it has come. */
  reading({ promptRead, promptTokens }) {
    const text = this.t("chat.reading", { done: promptRead, total: promptTokens });
    const shown = this.busy.querySelector(".turn-reading");
    if (shown) shown.textContent = text;
    else this.busy.append(h("span", { class: "turn-reading note" }, text));
  }

  /** Draw what is left and show that nothing more is under way; tools without an answer get `state`. */
  end(state = "stopped") {
    this.draw();
    this.element.removeAttribute("aria-busy");
    replace(this.busy);
    for (const tool of this.tools.values()) if (tool.state === "running") tool.settle(isProposal(tool.name) ? "waiting" : state);
    this.sayRest();
    this.showUsage();
  }

  addText(text) {
    if (!text) return;
    if (!this.segment) {
      if (!text.trim()) return;
      const element = h("div", { class: "md" });
      this.body.append(element);
      this.segment = { text: "", view: createMarkdown(element, this.markdownOptions()) };
    }
    this.segment.text += text;
    this.text += text;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  markdownOptions() {
    return { link: this.link, copyLabel: this.t("chat.copy"), copy: (text, button) => this.copy(text, button) };
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.segment) return;
    this.segment.view.update(this.segment.text.trimStart());
    this.sayParagraphs();
    this.log.stay();
  }

  /** Let a screen reader hear whole paragraphs, not single words. */
  sayParagraphs() {
    if (!this.element.hasAttribute("aria-busy")) return;
    const end = this.text.lastIndexOf("\n\n");
    if (end > this.said) this.sayUntil(end);
  }

  sayRest() {
    if (this.isLive && this.said < this.text.length) this.sayUntil(this.text.length);
  }

  sayUntil(end) {
    const words = this.text.slice(this.said, end).replace(/\{\{[^{}]*:([^{}]*)\}\}/g, "$1").replace(/[`*#|_]/g, "").trim();
    this.said = end;
    if (words) this.log.say(words);
  }

  async copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = this.t("chat.copied");
    } catch {
      this.app.toast("warn", this.t("chat.not_copied"));
      return;
    }
    setTimeout(() => (button.textContent = this.t("chat.copy")), COPIED_MS);
  }

  startTool(id, name, args) {
    if (this.tools.has(id)) return;
    this.draw();
    this.segment = null;
    const tool = createTool(this.app, { name, args });
    this.tools.set(id, tool);
    const last = this.body.lastElementChild;
    const group = last?.classList.contains("tools") ? last : h("div", { class: "tools" });
    if (group !== last) this.body.append(group);
    group.append(tool.element);
  }

  finishTool(id, { result, arguments: args, isError }) {
    this.tools.get(id)?.finish({ result, args, isError });
  }

  use(usage) {
    const { tokens, cost, isPriced, calls } = this.usage;
    this.usage = {
      tokens: tokens + (usage.totalTokens ?? 0),
      cost: cost + (usage.cost ?? 0),
      isPriced: isPriced && usage.cost !== undefined,
      calls: calls + 1,
    };
  }

  showUsage() {
    const { tokens, cost, isPriced, calls } = this.usage;
    if (!calls || !tokens) return;
    const { lang } = this.app.store.get();
    const parts = [this.t("chat.tokens", { n: tokens })];
    if (isPriced && cost > 0) parts.push(costText(cost, lang));
    replace(this.facts, parts.join(" · "));
    this.facts.title = this.t("chat.calls", { n: calls, tokens: numberText(tokens, lang) });
  }

  /** Put a box under the answer: an error, a limit, a note. The one before goes. */
  showAfter(...children) {
    replace(this.after, ...children);
    this.log.stay();
  }

  note(text, ...buttons) {
    this.showAfter(h("div", { class: "turn-note" }, h("p", {}, text), buttons.length ? h("div", { class: "card-buttons" }, ...buttons) : ""));
  }

  fail(text, ...buttons) {
    this.showAfter(h("div", { class: "turn-error", role: "alert" }, icon("error"), h("div", {}, h("p", {}, text), buttons.length ? h("div", { class: "card-buttons" }, ...buttons) : "")));
  }

  get isEmpty() {
    return !this.text.trim() && !this.tools.size;
  }
}

/** What a person said. */
export function createQuestion(app, text) {
  return h("article", { class: "turn is-user", "aria-label": app.t("chat.you") }, h("div", { class: "bubble" }, text));
}
