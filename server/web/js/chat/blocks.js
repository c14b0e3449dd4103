// The blocks of the message that is being written: what the person points at, uses, creates or configures.
//
// Each is a chip under the words, with its summary and its tokens as the server says them. `@` opens the chooser.

import { ApiError } from "../api.js";
import { looks, typeName } from "../canvas/model.js";
import { openPicker } from "../canvas/picker.js";
import { createParts, h } from "../dom.js";
import { labelOf } from "../names.js";
import { createChip } from "./block-chip.js";
import { isFixed, relativeOf } from "./periods.js";
import { moved, sentBlock } from "./segments.js";

const MAX = 10;
const SHOWN = 30;
const DO = { node: ["POINTER", "USE", "MODIFY_CONFIG"], nodeType: ["POINTER", "CREATE", "MODIFY_CONFIG"], sheet: ["POINTER"], graph: ["POINTER"], edge: ["POINTER"] };

// Returns `{element, readWith(text), take(text), put(blocks), point(keys), choose(typed), destroy()}` for the message in `field`. `choose` opens the
// chooser, as `@` does; `point` puts nodes before the words, each only by its name.
// `onChange()` is called when there is one more or less. A message that is sent again and again (`isRepeated`) is offered
// periods that count from each time. `graphKey()` names the graph of the message.
export function createBlocks(app, { field, graphKey, onChange = () => {}, isRepeated = false }) {
  const { store, t } = app;
  const list = h("ul.blocks", { "aria-label": t("block.list"), hidden: true });
  const offer = h("div");
  const element = h("div", list, offer);
  const [drawList, drawOffer] = [list, offer].map(createParts);
  let blocks = [];
  let chips = new Map(); // id -> chip
  let said = new Map(); // id -> {summary, tokens}
  let budget = 0;
  let asked = 0;
  let next = 1;
  let touched = ""; // the block that was added or changed last
  let written = field.value;
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.key !== "@" || !/(^|\s)$/.test(field.value.slice(0, field.selectionStart))) return;
    event.preventDefault();
    choose("@");
  });
  field.addEventListener("input", follow);
  const stops = [store.on("graphKey", () => !isRepeated && clear()), store.on("lang", () => (draw(), preview()))];
  return { element, readWith, take, put, point, choose, destroy: () => stops.forEach((stop) => stop()) };

  // What a person writes before a block moves it.
  function follow() {
    blocks = moved(blocks, written, field.value);
    written = field.value;
  }

  // Lets the person choose a block for where they write; who chooses none gets what they typed.
  async function choose(typed = "") {
    follow();
    const at = field.selectionStart;
    const isChosen = await open(at);
    // A dialog that closes gives the focus back without the caret: what is typed next would go nowhere.
    field.focus();
    field.setSelectionRange(at, at);
    if (!isChosen && typed) field.setRangeText(typed, at, at, "end");
    follow();
    onChange();
  }

  async function open(at) {
    if (store.get().graphState !== "ready" || store.get().graphKey !== graphKey()) return false;
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
    const { graph, nodes, edges, nodeTypes, selection } = store.get();
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
      ...made("graph", graphKey(), graph?.name ?? graphKey(), plain("graph"), t("block.kind.graph")),
      ...[...edges.values()].flatMap((edge) => made("edge", edge._key, `${end(edge.source)} → ${end(edge.target)}`, plain("move"), t("block.kind.edge"))),
    ];
  }

  function add(block) {
    touched = `b${next}`;
    put([...blocks, { id: touched, ...block }]);
  }

  function point(keys) {
    const isNew = (key) => !blocks.some((block) => block.target.key === key);
    const room = MAX - blocks.length;
    const wanted = keys.filter(isNew);
    if (wanted.length > room) app.toast("warn", t("block.most", { n: MAX }));
    put([...wanted.slice(0, Math.max(0, room)).map((key, i) => ({ id: `b${next + i}`, type: "POINTER", target: { kind: "node", key }, at: 0, isPlain: true })), ...blocks]);
  }

  function put(given) {
    blocks = given;
    next = Math.max(next, ...blocks.map((block) => Number(block.id.slice(1)) + 1 || 1));
    written = field.value;
    draw();
    onChange();
    preview();
  }

  function clear() {
    if (blocks.length) put([]);
  }

  // Returns the blocks to send with a text, and the text as it is read with them; nothing is left.
  function take(text) {
    const taken = readWith(text);
    clear();
    return taken;
  }

  // Of a text without the white space around it.
  function readWith(text) {
    const lead = field.value.length - field.value.trimStart().length;
    const taken = blocks.map((block) => sentBlock({ ...block, at: Math.min(Math.max(0, block.at - lead), text.length) })).sort((one, other) => one.at - other.at);
    const parts = taken.map((block, i) => `${text.slice(taken[i - 1]?.at ?? 0, block.at)} [${said.get(block.id)?.summary ?? block.target.key}] `);
    const read = taken.length ? `${parts.join("")}${text.slice(taken.at(-1).at)}`.replace(/ {2,}/g, " ").trim() : text;
    return { blocks: taken, read };
  }

  function draw() {
    list.hidden = !blocks.length;
    const { lang } = store.get();
    const total = [...said.values()].reduce((sum, one) => sum + one.tokens, 0);
    const fixed = isRepeated ? blocks.filter((block) => isFixed(block.period)).length : 0;
    chips = new Map(blocks.map(({ id }) => [id, chips.get(id) ?? chipOf(id)]));
    drawList([
      ...blocks.map(({ id }) => ({ key: id, facts: [], make: () => chips.get(id).element })),
      ...(budget && total > budget ? [{ key: "cut", facts: [lang, total], make: () => h("li.note", t("block.cut", { total, budget })) }] : []),
    ]);
    blocks.forEach((block) => chips.get(block.id).show(block, said.get(block.id)));
    drawOffer(fixed ? [{ key: "fixed", facts: [lang, fixed], make: () => h("p.block-offer", { role: "note" }, t("block.fixed", { n: fixed }), " ", h("button.link", { type: "button", onclick: count }, t("block.fixed_count"))) }] : []);
  }

  // Lets periods of instants count from each time that the message is sent.
  function count() {
    put(blocks.map((block) => (isFixed(block.period) ? { ...block, period: relativeOf(block.period, block.sent ?? Date.now()) } : block)));
    field.focus();
  }

  function chipOf(id) {
    const change = (patch) => {
      touched = id;
      put(blocks.map((one) => (one.id === id ? { ...one, ...patch } : one)));
    };
    return createChip(app, { onPeriod: (period) => change({ period, sent: undefined }), onRemove: () => put(blocks.filter((one) => one.id !== id)) });
  }

  async function preview() {
    const mine = ++asked;
    if (!blocks.length) {
      said = new Map();
      return;
    }
    try {
      const found = await app.api.post("/api/enrichments/preview", { graphKey: graphKey(), blocks: blocks.map(sentBlock) }, { isRead: true });
      if (mine !== asked) return;
      ({ budget } = found);
      said = new Map(found.blocks.map((one) => [one.id, one]));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine !== asked) return;
      said.set(blocks.some((block) => block.id === touched) ? touched : blocks.at(-1).id, { error: error.message, tokens: 0 });
    }
    draw();
  }
}
