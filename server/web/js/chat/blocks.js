// The blocks of the message that is being written: what the person points at, uses, creates or configures.
//
// Each is a chip under the words, with its summary and its tokens as the server says them.

import { ApiError } from "../api.js";
import { looks, typeName } from "../canvas/model.js";
import { openPicker } from "../canvas/picker.js";
import { createParts, h } from "../dom.js";
import { icon } from "../icons.js";
import { labelOf } from "../names.js";

const MAX = 10;
const SHOWN = 30;
const DO = { node: ["POINTER", "USE", "MODIFY_CONFIG"], nodeType: ["POINTER", "CREATE", "MODIFY_CONFIG"], sheet: ["POINTER"], graph: ["POINTER"], edge: ["POINTER"] };

// Returns `{element, open(at), take(text), put(blocks)}`. `open` lets the person choose one more, which stands at that place
// of the message, and resolves to whether they did; `onChange()` is called when there is one more or less.
export function createBlocks(app, { onChange }) {
  const { store, t } = app;
  const element = h("ul.blocks", { "aria-label": t("block.list"), hidden: true });
  const drawParts = createParts(element);
  let blocks = [];
  let said = new Map(); // id -> {summary, tokens}
  let budget = 0;
  let asked = 0;
  let next = 1;
  store.on("graphKey", clear);
  store.on("lang", () => (draw(), preview()));
  return { element, open, take, put };

  async function open(at) {
    if (store.get().graphState !== "ready") return false;
    if (blocks.length >= MAX) {
      app.toast("warn", t("block.most", { n: MAX }));
      return true;
    }
    const before = blocks;
    const all = choices();
    const find = (text) => {
      const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const found = all.filter((one) => words.every((word) => one.words.includes(word)));
      return { rows: found.slice(0, SHOWN).map((one) => ({ ...one, choose: () => add({ ...one.block, at }) })), note: t("block.found", { n: found.length }) };
    };
    await openPicker(app, { title: t("block.title"), hint: t("block.hint"), find }).closed;
    return blocks !== before;
  }

  // Everything of the graph that a block may be about, with what may be done with it.
  function choices() {
    const { graph, graphKey, nodes, edges, nodeTypes, selection } = store.get();
    const plain = (name) => ({ icon: name, hue: 220 });
    const made = (kind, key, name, look, about) => DO[kind].map((type) => ({
      block: { type, target: { kind, key } }, look, name: `${t(`block.${type}`)} ${name}`, about, words: `${t(`block.${type}`)} ${name} ${key} ${about}`.toLowerCase(),
    }));
    const ofNode = (node) => made("node", node._key, labelOf(node, nodeTypes), looks(node, nodeTypes), typeName(node, nodeTypes));
    const picked = new Set(selection);
    const ordered = [...nodes.values()].sort((one, other) => picked.has(other._key) - picked.has(one._key));
    const end = (key) => (nodes.has(key) ? labelOf(nodes.get(key), nodeTypes) : key);
    return [
      ...ordered.flatMap(ofNode),
      ...[...nodeTypes.values()].flatMap((type) => made("nodeType", type.type, type.displayName || type.type, plain("Box"), t("block.kind.nodeType"))),
      ...Object.entries(graph?.sheetsList ?? {}).flatMap(([key, name]) => made("sheet", key, name, plain("sheets"), t("block.kind.sheet"))),
      ...made("graph", graphKey, graph?.name ?? graphKey, plain("graph"), t("block.kind.graph")),
      ...[...edges.values()].flatMap((edge) => made("edge", edge._key, `${end(edge.source)} → ${end(edge.target)}`, plain("move"), t("block.kind.edge"))),
    ];
  }

  function add(block) {
    put([...blocks, { id: `b${next++}`, ...block }]);
  }

  function put(given) {
    blocks = given;
    draw();
    onChange();
    preview();
  }

  function clear() {
    if (blocks.length) put([]);
  }

  // Returns the blocks to send with a text, and the text as it is read with them; nothing is left.
  function take(text) {
    const taken = blocks.map((block) => ({ ...block, at: Math.min(block.at, text.length) })).sort((one, other) => one.at - other.at);
    const parts = taken.map((block, i) => `${text.slice(taken[i - 1]?.at ?? 0, block.at)} [${said.get(block.id)?.summary ?? block.target.key}] `);
    const read = taken.length ? `${parts.join("")}${text.slice(taken.at(-1).at)}`.replace(/ {2,}/g, " ").trim() : text;
    clear();
    return { blocks: taken, read };
  }

  function draw() {
    element.hidden = !blocks.length;
    const { lang } = store.get();
    const total = [...said.values()].reduce((sum, one) => sum + one.tokens, 0);
    drawParts([
      ...blocks.map((block) => ({ key: block.id, facts: [lang, said.get(block.id)], make: () => chip(block) })),
      ...(budget && total > budget ? [{ key: "cut", facts: [lang, total], make: () => h("li.note", t("block.cut", { total, budget })) }] : []),
    ]);
  }

  function chip(block) {
    const found = said.get(block.id);
    const text = found?.error ?? found?.summary ?? `${t(`block.${block.type}`)} ${block.target.key}`;
    const remove = () => put(blocks.filter((one) => one.id !== block.id));
    return h("li.block", { class: found?.error ? "is-wrong" : undefined }, h("span.block-text", text), found?.tokens ? h("span.muted", t("chat.tokens", { n: found.tokens })) : "",
      h("button.icon-button", { type: "button", title: t("block.remove"), "aria-label": `${t("block.remove")}: ${text}`, onclick: remove }, icon("close")));
  }

  async function preview() {
    const mine = ++asked;
    if (!blocks.length) {
      said = new Map();
      return;
    }
    try {
      const found = await app.api.post("/api/enrichments/preview", { graphKey: store.get().graphKey, blocks }, { isRead: true });
      if (mine !== asked) return;
      ({ budget } = found);
      said = new Map(found.blocks.map((one) => [one.id, one]));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine !== asked) return;
      said.set(blocks.at(-1).id, { error: error.message, tokens: 0 });
    }
    draw();
  }
}
