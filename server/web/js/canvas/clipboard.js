// Copies, cuts and pastes nodes with the edges between them: as text, so that it works over sheets, graphs and windows.
// A paste is one edit, and one undo.

import { boundsOf, isIn, shapeOf } from "./model.js";

const FORMAT = "nodius-clip";
const MOST = 300; // nodes of one paste
const MOST_CHARS = 4_000_000;
const STEP = 40; // a copy beside its original
const GAP = 20; // between what is pasted and what is there
const MOST_STEPS = 40; // to the right and down, until a place is free

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const number = (value) => (Number.isFinite(value) ? value : 0);

export function createClipboard({ app, edits, view, canvas }) {
  const { store, t, toast, api, path } = app;
  let last = ""; // what was copied here: a menu may not read what other programs copied
  let pasting = Promise.resolve(); // ends with the last paste that was asked for

  // What is selected as text, or null where no node is.
  function picked() {
    const { selection, nodes, edges, graphKey, sheet } = store.get();
    const chosen = selection.filter((key) => nodes.has(key)).map((key) => nodes.get(key));
    if (!chosen.length) return null;
    if (chosen.length > MOST) return toast("warn", t("paste.too_many", { n: MOST }));
    const keys = new Set(chosen.map((node) => node._key));
    const between = [...edges.values()].filter((edge) => keys.has(edge.source) && keys.has(edge.target));
    return JSON.stringify({ format: FORMAT, graphKey, sheet, nodes: chosen, edges: between });
  }

  // Copies by a menu; by keys the browser hands over its clipboard, see below.
  async function copy({ isCut = false } = {}) {
    const text = picked();
    if (!text) return;
    await navigator.clipboard?.writeText(text).catch(() => {}); // then it can be pasted on this page alone
    await taken(text, isCut);
  }

  async function taken(text, isCut) {
    last = text;
    const { selection, nodes } = store.get();
    const n = selection.filter((key) => nodes.has(key)).length;
    if (isCut && !(await edits.remove(selection))) return;
    toast("ok", t(isCut ? "paste.cut" : "paste.copied", { n }), isCut ? { action: { label: t("canvas.undo"), run: edits.undo } } : {});
  }

  // Pastes text, by default what was copied here; `at` is a place on the canvas.
  async function paste(text = last, at = null) {
    if (!text.trim() || !edits.check()) return;
    const clip = text.length > MOST_CHARS ? null : (read(text) ?? (await translated(text, at)));
    if (clip === undefined) return; // it was said why
    if (!clip?.nodes.length) {
      toast("warn", t(text.length > MOST_CHARS ? "paste.too_long" : "paste.nothing"));
      return;
    }
    const { nodeTypes } = store.get();
    const known = clip.nodes.filter((node) => nodeTypes.has(node.type));
    const left = [...new Set(clip.nodes.filter((node) => !nodeTypes.has(node.type)).map((node) => String(node.type).slice(0, 60)))];
    if (left.length) toast("warn", t("paste.unknown", { n: clip.nodes.length - known.length, types: left.slice(0, 5).join(", ") }));
    if (known.length > MOST) toast("warn", t("paste.too_many", { n: MOST }));
    else if (known.length) await put({ ...clip, nodes: known }, at);
  }

  // Our own text, of which nothing is believed but its form: the server checks each document.
  function read(text) {
    let found;
    try {
      found = JSON.parse(text);
    } catch {
      return null;
    }
    if (found?.format !== FORMAT) return null;
    const [nodes, edges] = [found.nodes, found.edges].map((list) => (Array.isArray(list) ? list.filter(isObject) : []));
    return { ...found, nodes: nodes.filter((node) => typeof node._key === "string"), edges };
  }

  // Nodes that another tool copied, as the service reads them; null where it is no workflow.
  async function translated(text, at) {
    if (!/^\s*[[{]/.test(text)) return null;
    const { graphKey, sheet } = store.get();
    const { x, y } = at ?? middle();
    try {
      const found = await api.call("POST", path`/api/graphs/${graphKey}/paste`, { body: { text, x, y, sheet } });
      if (found.remarks?.length) toast("info", found.remarks.slice(0, 3).join(" "));
      store.set({ nodeTypes: withTypes(found.types ?? []) });
      return { nodes: found.nodes, edges: found.edges ?? [] };
    } catch (error) {
      toast("warn", t("paste.not_read", { reason: error.message }));
      return undefined;
    }
  }

  // The types that the page knows with those that the service has taken from the text.
  function withTypes(configs) {
    const types = new Map(store.get().nodeTypes);
    for (const { node, origin, ...config } of configs) types.set(node.type, { ...config, ...node, family: origin?.format });
    return types;
  }

  // Copies what is selected as text that another tool takes.
  async function copyAs(format) {
    const { graphKey, selection, nodes } = store.get();
    const keys = selection.filter((key) => nodes.has(key));
    if (keys.length > MOST) return toast("warn", t("paste.too_many", { n: MOST }));
    try {
      const { text, remarks } = await api.call("POST", path`/api/graphs/${graphKey}/copy`, { body: { nodes: keys, format } });
      await navigator.clipboard.writeText(text);
      toast("ok", [t("paste.copied", { n: keys.length }), ...(remarks ?? []).slice(0, 3)].join(" "));
    } catch (error) {
      toast("error", t("paste.not_copied", { reason: error.message }));
    }
    return undefined;
  }

  // One paste after the other: each is named after the one before it.
  function put(clip, at) {
    const done = pasting.then(() => putNext(clip, at));
    pasting = done.catch(() => {});
    return done;
  }

  async function putNext(clip, at) {
    const { graph, graphKey, sheet } = store.get();
    const by = shift(clip, at);
    const keys = new Set(clip.nodes.map((node) => node._key));
    const made = clip.nodes.map((node) => ({ ...copyOf(node), posX: number(node.posX) + by.x, posY: number(node.posY) + by.y }));
    const edges = clip.edges.filter((edge) => keys.has(edge.source) && keys.has(edge.target)).map(({ source, target, sourceHandle, targetHandle, label }) =>
      ({ source, target, sourceHandle: sourceHandle ?? "0", targetHandle: targetHandle ?? "0", ...(typeof label === "string" ? { label } : {}) }));
    const named = graph.category === "n8n" ? await underFreeNames(graphKey, made) : made;
    const isOpen = () => store.get().graphKey === graphKey && store.get().sheet === sheet;
    if (!named || !isOpen()) return;
    const isHere = clip.graphKey === graphKey;
    const found = await edits.add(named, edges, { keepsGroups: isHere });
    if (!found || !isOpen()) return;
    store.set({ selection: [...found.values()] });
    canvas.focusNew(found.values().next().value);
    toast("ok", t("paste.pasted", { n: made.length }), { action: { label: t("canvas.undo"), run: edits.undo } });
  }

  // The nodes under names that no node of the graph has, as the service gives them: what they say of one another follows.
  async function underFreeNames(graphKey, nodes) {
    try {
      const asked = nodes.map(({ _key, type, data = null, process = null }) => ({ key: _key, type, data, process }));
      const found = await api.call("POST", path`/api/graphs/${graphKey}/free-names`, { body: { nodes: asked } });
      const given = ({ data, process }) => Object.fromEntries(Object.entries({ data, process }).filter(([, value]) => value !== null && value !== undefined));
      return nodes.map((node, i) => ({ ...node, ...given(found.nodes[i]) }));
    } catch (error) {
      toast("warn", t("paste.not_read", { reason: error.message }));
      return null;
    }
  }

  // What a copy keeps: what it was imported from is its original alone.
  function copyOf({ _key, type, typeVersion, posX, posY, size, handles, data, process, origin }) {
    const from = isObject(origin) ? { origin: { format: origin.format, ...(isObject(origin.fields) ? { fields: origin.fields } : {}) } } : {};
    const node = { _key, type, typeVersion, posX, posY, size, handles, data, process, ...from };
    return Object.fromEntries(Object.entries(structuredClone(node)).filter(([, value]) => value !== undefined));
  }

  const middle = () => {
    const { x1, y1, x2, y2 } = view.seen();
    return { x: Math.round((x1 + x2) / 2), y: Math.round((y1 + y2) / 2) };
  };

  // How far the nodes are moved: to a place, beside their originals, or into the middle of what is seen; from there on to
  // the nearest place, further right or down, where they lie on no other node.
  function shift(clip, at) {
    const box = boundsOf(clip.nodes);
    const { x, y } = begin(clip, at, box);
    const isNote = ({ type }) => ["note", "group"].includes(shapeOf({ type }, store.get().nodeTypes));
    if (clip.nodes.every(isNote)) return { x, y };
    const there = [...store.get().nodes.values()].filter((node) => (node.sheet ?? "0") === store.get().sheet && !isNote(node));
    const isFree = (dx, dy) => !there.some((node) => isIn(node, { x1: box.x1 + x + dx - GAP, y1: box.y1 + y + dy - GAP, x2: box.x2 + x + dx + GAP, y2: box.y2 + y + dy + GAP }));
    const steps = Array.from({ length: MOST_STEPS ** 2 }, (_, i) => [STEP * (i % MOST_STEPS), STEP * Math.floor(i / MOST_STEPS)]).sort(([a, b], [c, d]) => Math.hypot(a, b) - Math.hypot(c, d));
    const [dx, dy] = steps.find(([right, down]) => isFree(right, down)) ?? [0, boundsOf(there).y2 + GAP - box.y1 - y];
    return { x: x + dx, y: y + dy };
  }

  function begin({ graphKey: from, sheet: on }, at, box) {
    if (at) return { x: Math.round(at.x - box.x1), y: Math.round(at.y - box.y1) };
    const { graphKey, sheet } = store.get();
    if (from === graphKey && on === sheet) return { x: STEP, y: STEP };
    const { x, y } = middle();
    return { x: Math.round(x - (box.x1 + box.x2) / 2), y: Math.round(y - (box.y1 + box.y2) / 2) };
  }

  // Copies what is selected beside itself; the clipboard stays as it is.
  async function duplicate() {
    const text = picked();
    if (!text || !edits.check()) return;
    await put(read(text), null);
  }

  // What the browser's own clipboard is to hold, or has held.
  function copied(event) {
    const isCut = event.type === "cut";
    if (isCut && !edits.check()) return;
    const text = picked();
    if (!text) return;
    event.preventDefault();
    event.clipboardData.setData("text/plain", text);
    taken(text, isCut);
  }

  function pasted(text) {
    last = text;
    paste(text);
  }

  return { copied, pasted, copy, copyAs, cut: () => copy({ isCut: true }), paste, duplicate, get isFilled() { return Boolean(last); } };
}
