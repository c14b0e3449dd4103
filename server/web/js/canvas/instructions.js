// The document operations of live editing, as the protocol numbers them. Applying never changes its input.

const FORBIDDEN = new Set(["__proto__", "prototype", "constructor"]);
const has = (value, key) => Object.hasOwn(value, key);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

export class InstructionError extends Error {}

const TEXT = {
  10: (text, { v }) => text + v,
  16: (text, { v, i, t }) => text.slice(0, i) + v + text.slice(t ?? i),
  11: (text, { i, l }) => text.slice(0, i) + text.slice(i + l),
  12: (text, { v, i, l }) => text.slice(0, i) + v + text.slice(i + l),
  5: (text, { s, r }) => text.replace(s, () => r),
  6: (text, { s, r }) => text.replaceAll(s, () => r),
};

const LIST = {
  3: (list, { v }) => list.push(v),
  4: (list, { v, i }) => list.splice(i, 0, v),
  7: (list) => list.pop(),
  8: (list) => list.shift(),
  9: (list, { v }) => list.unshift(v),
  14: (list, { i }) => list.splice(i, 1),
  17: (list, { f, t }) => list.splice(t, 0, ...list.splice(f, 1)),
};

// Returns the document with an instruction {o, p, v, …} applied. Throws InstructionError where it does not fit.
export function applyInstruction(document, instruction) {
  const { o, p = [] } = instruction;
  if (p.some((part) => FORBIDDEN.has(part)) || instruction.d?.some((part) => FORBIDDEN.has(part))) {
    throw new InstructionError("forbidden key");
  }
  if (o === 18 || o === 19) return moved(document, instruction);
  return changed(document, p, (parent, key) => {
    if (o === 1) parent[key] = instruction.v;
    else if (o === 2) remove(parent, key);
    else if (o === 15) parent[key] = { ...(isObject(parent[key]) ? parent[key] : {}), ...instruction.v };
    else parent[key] = replaced(parent, key, instruction);
  });
}

function replaced(parent, key, instruction) {
  const { o } = instruction;
  if (!has(parent, key)) throw new InstructionError(`nothing at ${key}`);
  const value = parent[key];
  if (o === 13) return !value;
  if (TEXT[o]) {
    if (typeof value !== "string") throw new InstructionError(`no text at ${key}`);
    return TEXT[o](value, instruction);
  }
  if (!LIST[o]) throw new InstructionError(`no operation ${o}`);
  if (!Array.isArray(value)) throw new InstructionError(`no list at ${key}`);
  const list = [...value];
  LIST[o](list, instruction);
  return list;
}

function remove(parent, key) {
  if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete parent[key];
}

// Copies the way down to `path` and lets `change` work on the last container; the empty path is the root.
function changed(document, path, change) {
  const holder = { root: document };
  let parent = holder;
  let key = "root";
  for (const part of path) {
    const child = parent[key];
    if (child === null || typeof child !== "object") throw new InstructionError(`nothing holds ${part}`);
    parent[key] = Array.isArray(child) ? [...child] : { ...child };
    parent = parent[key];
    key = part;
  }
  change(parent, key);
  return holder.root;
}

function moved(document, { o, p, d, i }) {
  let value;
  const without = changed(document, p, (parent, key) => {
    if (!has(parent, key)) throw new InstructionError(`nothing at ${key}`);
    value = parent[key];
    remove(parent, key);
  });
  if (o === 18) return changed(without, d, (parent, key) => (parent[key] = value));
  return applyInstruction(without, { o: 4, p: d, v: value, i });
}
