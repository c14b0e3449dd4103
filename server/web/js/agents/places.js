// Where the values of a JSON text stand, by their path (`tools.cancel_order.url`), and what is wrong where. Pure.

// Returns a map of paths to `[from, to]`; of a text that is no JSON those before its mistake.
export function placesOf(text) {
  const found = new Map();
  let at = 0;
  const space = () => take(/\s*/y);
  function take(pattern) {
    pattern.lastIndex = at;
    const [taken] = pattern.exec(text) ?? [null];
    if (taken === null) throw new SyntaxError(`no JSON at ${at}`);
    at += taken.length;
    return taken;
  }
  const string = () => take(/"(?:[^"\\]|\\.)*"/y);
  function list(path, end, name) {
    at += 1;
    space();
    for (let n = 0; text[at] !== end; n += 1) {
      if (n) take(/,\s*/y);
      value([...path, name(n)]);
      space();
    }
    at += 1;
  }
  function member() {
    const name = JSON.parse(string());
    take(/\s*:/y);
    return name;
  }
  function value(path) {
    space();
    const from = at;
    if (text[at] === "{") list(path, "}", member);
    else if (text[at] === "[") list(path, "]", String);
    else if (text[at] === '"') string();
    else take(/[^\s,\]}]+/y);
    found.set(path.join("."), [from, at]);
  }
  try {
    value([]);
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error; // no JSON, or too deep
  }
  return found;
}

// Returns the problems with the place and the line of each: of what it names, else of what is nearest around it.
// A value of several lines is named by its first.
export function placed(text, problems) {
  const places = placesOf(text);
  return problems.map((problem) => {
    const parts = String(problem.where ?? "").split(".").filter(Boolean);
    while (parts.length && !places.has(parts.join("."))) parts.pop();
    if (!parts.length) return { ...problem, place: null, line: 0 };
    const [from, to] = places.get(parts.join("."));
    const end = text.indexOf("\n", from);
    return { ...problem, place: [from, end < 0 ? to : Math.min(to, end)], line: text.slice(0, from).split("\n").length };
  });
}

// The id that a document gives its agent, JSON or YAML; empty where it gives none.
export function idOf(text) {
  const place = placesOf(text).get("agent.id");
  if (place && text[place[0]] === '"') return JSON.parse(text.slice(...place));
  return /^agent:[^\S\n]*\n(?:[^\S\n]+.*\n)*?[^\S\n]+id:[^\S\n]*["']?([^\s"'#]+)/m.exec(text)?.[1] ?? "";
}
