// What people call nodes, edges and moments. Pure.

const NAMES = ["name", "title", "label", "displayName"];

// The name of a node's document: its data's name, else its type's, else its key.
export function labelOf(node, nodeTypes) {
  const data = node?.data;
  if (data && typeof data === "object") {
    for (const field of NAMES) if (typeof data[field] === "string" && data[field].trim()) return data[field].trim();
  }
  const type = nodeTypes?.get?.(node?.type);
  return type?.displayName || node?.type || node?._key || "";
}

// The name of a node by its key: of the graph as it is, else of a preview's new nodes, else the key.
export function nameOf(app, key, preview) {
  const { nodes, nodeTypes } = app.store.get();
  const node = nodes?.get?.(key) ?? [...(preview?.nodesAdded ?? []), ...(preview?.nodesRemoved ?? [])].find((one) => one._key === key);
  return node ? labelOf(node, nodeTypes) : String(key);
}

// What people call a field of a node: `data.level` is its "level". `path` is a text with dots or a list.
export function fieldName(t, path) {
  const parts = Array.isArray(path) ? path : String(path).split(".");
  const own = parts[0] === "data" && parts.length > 1 ? parts.slice(1) : parts;
  return own.length === 1 && t.has(`field.${own[0]}`) ? t(`field.${own[0]}`) : own.join(".");
}

// Who somebody is to the person who looks: "you", the service, somebody on the telephone, or their own name.
export function personName({ store, t, people }, userId) {
  if (userId === store.get().me?.userId) return t("people.you");
  if (String(userId).startsWith("caller:")) return t("people.caller");
  return userId === "system" ? t("people.service") : people.nameOf(userId);
}

// A time as people read it: the hour today, else the day too.
export function timeText(ms, lang) {
  if (!ms) return "";
  const date = new Date(ms);
  const isToday = date.toDateString() === new Date().toDateString();
  const form = isToday ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(lang, form).format(date);
}

const UNITS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

// How long ago a time was, or how long until it is: "5 minutes ago", "in 3 hours". Units: milliseconds since 1970.
export function ago(time, lang, t) {
  const seconds = Math.round((time - Date.now()) / 1000);
  const found = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  return found ? new Intl.RelativeTimeFormat(lang, { numeric: "auto" }).format(Math.round(seconds / found[1]), found[0]) : t("time.now");
}

export const numberText = (value, lang) => new Intl.NumberFormat(lang).format(value);

// US dollars, with as many places as a small sum needs.
export function costText(usd, lang) {
  const places = usd >= 1 || usd === 0 ? 2 : 4;
  return new Intl.NumberFormat(lang, { style: "currency", currency: "USD", maximumFractionDigits: places }).format(usd);
}

// A JSON value in one line, cut.
export function shortJson(value, limit = 200) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

// Says an edit's steps once each: moving a node sets two fields.
export function sentences(steps, { t, store }) {
  const said = new Set();
  for (const { type, keys = [], field = "", name = "", from, to } of steps) {
    const isNamed = to !== undefined && NAMES.some((one) => field === `data.${one}`);
    const key = isNamed ? String(from) : keys.length ? nameOf({ store }, keys[0]) : ""; // as it was called then
    const isMove = type === "nodeUpdate" && ["posX", "posY"].includes(field);
    const what = t(isMove ? "step.nodeMove" : `step.${type}`, { n: keys.length, key, field: fieldName(t, field), name });
    said.add(to === undefined ? what : t("step.values", { what, from: String(from), to: String(to) }));
  }
  return [...said];
}

// The colour of a person, by their name. Units: degrees.
export function hue(text) {
  let sum = 0;
  for (const char of String(text)) sum = (sum * 31 + char.codePointAt(0)) % 360;
  return sum;
}
