// The document of an agent by paths, and what its form changes in it. Pure but for the document that is given.
//
// Whatever a form does not know stays as it is: only the value at a path is set, and an object that a form emptied is left out.

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const has = (value, part) => value !== null && typeof value === "object" && Object.hasOwn(value, part);

// Returns the value at a path, undefined where there is none.
export const at = (document, path) => path.reduce((value, part) => (has(value, part) ? value[part] : undefined), document);

const stoodThere = new WeakMap(); // what an object stands in place of
const wereEmpty = new WeakSet(); // objects to which something was added

// Sets the value at a path, with the objects around it; undefined takes it out, and the objects that are empty then, but for
// those that were empty before.
export function put(document, path, value) {
  const [name, ...rest] = path;
  if (!rest.length) {
    if (value === undefined) delete document[name];
    else define(document, name, value);
    return;
  }
  const inner = at(document, [name]);
  const isHolder = isObject(inner) || (Array.isArray(inner) && typeof rest[0] === "number");
  if (value !== undefined) {
    if (!isHolder) hold(document, name, inner);
    else if (isObject(inner) && !Object.keys(inner).length) wereEmpty.add(inner);
    put(document[name], rest, value);
  } else if (isHolder) {
    const hadSome = Object.keys(inner).length > 0;
    put(inner, rest, undefined);
    if (hadSome && isObject(inner) && !Object.keys(inner).length && !wereEmpty.has(inner) && !Array.isArray(document)) giveUp(document, name, inner);
  }
}

function hold(document, name, before) {
  const made = {};
  if (before !== undefined) stoodThere.set(made, before);
  define(document, name, made);
}

function giveUp(document, name, inner) {
  if (stoodThere.has(inner)) define(document, name, stoodThere.get(inner));
  else delete document[name];
}

// Also a name as `__proto__` is a member like any other.
function define(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

// Returns an object of the same members in the same order, one of them under another name.
export const renamed = (object, from, to) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name === from ? to : name, value]));

// Returns an object whose member is one place earlier (-1) or later (1).
export function movedMember(object, name, by) {
  const entries = Object.entries(object);
  return Object.fromEntries(movedItem(entries, entries.findIndex(([one]) => one === name), by));
}

// Returns a list whose element is one place earlier (-1) or later (1).
export function movedItem(list, from, by) {
  const made = [...list];
  if (from + by >= 0 && from + by < list.length) [made[from], made[from + by]] = [made[from + by], made[from]];
  return made;
}

// Returns the tools: `{name, handler, declared}`, `declared` the index of its declaration for the model, -1 without. Those that are
// declared come first, in their order. A name that is declared twice, and what is no tool at all, is left out.
export function toolsOf(document) {
  const handlers = isObject(document.tools) ? document.tools : {};
  const declared = declarations(document).map((one, place) => [one?.name, place]).filter(([name], i, all) => typeof name === "string" && all.findIndex(([other]) => other === name) === i);
  const told = new Set(declared.map(([name]) => name));
  const of = (name, place) => ({ name, handler: isObject(at(handlers, [name])) ? handlers[name] : null, declared: place });
  return [...declared.map(([name, place]) => of(name, place)), ...Object.keys(handlers).filter((name) => !told.has(name) && isObject(handlers[name])).map((name) => of(name, -1))];
}

const declarations = (document) => (Array.isArray(document.session?.tools) ? document.session.tools : []);
export const isInline = (document) => document.session?.mode === "inline";

// Adds a tool under a name that is free, declared where the document itself tells the model of its tools. Returns the name.
export function addTool(document, handler) {
  const taken = new Set(toolsOf(document).map(({ name }) => name));
  let name = "new_tool";
  for (let n = 2; taken.has(name) || has(document.tools, name); n += 1) name = `new_tool_${n}`;
  put(document, ["tools", name], handler);
  if (isInline(document) && handler.type === "http") put(document, ["session", "tools"], [...declarations(document), { type: "function", name, description: "", parameters: { type: "object", properties: {} } }]);
  return name;
}

export function removeTool(document, { name, declared }) {
  put(document, ["tools", name], undefined);
  if (declared >= 0) document.session.tools.splice(declared, 1);
}

export function renameTool(document, { name, declared, handler }, to) {
  if (handler) document.tools = renamed(document.tools, name, to);
  if (declared >= 0) document.session.tools[declared].name = to;
}

// Returns how far a tool can be moved: among those that are declared, or among the others.
export function mayMove(document, tool, by) {
  const alike = toolsOf(document).filter(({ declared }) => (declared >= 0) === (tool.declared >= 0));
  return Boolean(alike[alike.findIndex(({ name }) => name === tool.name) + by]);
}

export function moveTool(document, tool, by) {
  const tools = toolsOf(document).filter(({ declared }) => (declared >= 0) === (tool.declared >= 0));
  const other = tools[tools.findIndex(({ name }) => name === tool.name) + by];
  if (!other) return;
  if (tool.declared < 0) {
    document.tools = swapped(document.tools, tool.name, other.name);
    return;
  }
  const list = document.session.tools;
  [list[tool.declared], list[other.declared]] = [list[other.declared], list[tool.declared]];
}

function swapped(object, one, other) {
  const names = { [one]: other, [other]: one };
  return Object.fromEntries(Object.keys(object).map((name) => [names[name] ?? name, object[names[name] ?? name]]));
}

// Returns the arguments that are declared to the model: `[{name, rule, isRequired}]`, null where the schema has another form.
export function argumentsOf(document, declared) {
  const schema = at(document, ["session", "tools", declared, "parameters"]);
  if (schema === undefined) return [];
  if (!isObject(schema) || !isObject(schema.properties ?? {}) || !Array.isArray(schema.required ?? [])) return null;
  return Object.entries(schema.properties ?? {}).map(([name, rule]) => ({ name, rule, isRequired: (schema.required ?? []).includes(name) }));
}

export const ARGUMENT_TYPES = ["string", "integer", "number", "boolean", "array", "object"];

export function addArgument(document, declared) {
  const taken = new Set(argumentsOf(document, declared).map(({ name }) => name));
  let name = "value";
  for (let n = 2; taken.has(name); n += 1) name = `value_${n}`;
  const path = ["session", "tools", declared, "parameters"];
  if (at(document, path) === undefined) put(document, path, { type: "object" });
  put(document, [...path, "properties", name], { type: "string", description: "" });
  return name;
}

export function renameArgument(document, declared, from, to) {
  const schema = at(document, ["session", "tools", declared, "parameters"]);
  schema.properties = renamed(schema.properties, from, to);
  if (schema.required) schema.required = schema.required.map((one) => (one === from ? to : one));
}

export function removeArgument(document, declared, name) {
  const schema = at(document, ["session", "tools", declared, "parameters"]);
  delete schema.properties[name];
  require(document, declared, name, false);
}

export function moveArgument(document, declared, name, by) {
  const schema = at(document, ["session", "tools", declared, "parameters"]);
  schema.properties = movedMember(schema.properties, name, by);
}

export function require(document, declared, name, isRequired) {
  const schema = at(document, ["session", "tools", declared, "parameters"]);
  const others = (schema.required ?? []).filter((one) => one !== name);
  if (isRequired) schema.required = (schema.required ?? []).includes(name) ? schema.required : [...others, name];
  else if (schema.required) put(schema, ["required"], others.length ? others : undefined);
}
