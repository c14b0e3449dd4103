// Where the values of a JSON text stand, by their path (`tools.cancel_order.url`), and what is wrong where. Pure.

// Returns `{found, fault}`: the places of all values, and where the text ceases to be JSON (null: nowhere). A name that
// stands twice in one object is a fault too: one of its values would be lost.
function scanned(text) {
  const found = new Map();
  let at = 0;
  const space = () => take(/[ \t\n\r]*/y);
  function take(pattern) {
    pattern.lastIndex = at;
    const [taken] = pattern.exec(text) ?? [null];
    if (taken === null) throw new SyntaxError(`no JSON at ${at}`);
    at += taken.length;
    return taken;
  }
  const string = () => take(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
  function list(path, end, name) {
    const names = new Set();
    at += 1;
    space();
    for (let n = 0; text[at] !== end; n += 1) {
      if (n) take(/,[ \t\n\r]*/y);
      const from = at;
      const part = name(n);
      if (names.has(part)) {
        at = from;
        throw new SyntaxError(`twice at ${at}`);
      }
      names.add(part);
      value([...path, part]);
      space();
    }
    at += 1;
  }
  function member() {
    const name = JSON.parse(string());
    take(/[ \t\n\r]*:/y);
    return name;
  }
  function value(path) {
    space();
    const from = at;
    if (text[at] === "{") list(path, "}", member);
    else if (text[at] === "[") list(path, "]", String);
    else if (text[at] === '"') string();
    else take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y);
    found.set(path.join("."), [from, at]);
  }
  try {
    value([]);
    space();
    return { found, fault: at < text.length ? at : null };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error; // no JSON, or too deep
    return { found, fault: at };
  }
}

// Returns a map of paths to `[from, to]`; of a text that is no JSON those before its mistake.
export const placesOf = (text) => scanned(text).found;

// Returns where a text ceases to be JSON, `{at, line, column}`; null where it is JSON.
export function faultOf(text) {
  const { fault } = scanned(text);
  if (fault === null) return null;
  const before = text.slice(0, fault);
  return { at: fault, line: before.split("\n").length, column: fault - before.lastIndexOf("\n") };
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

// What is wrong, and what is allowed there.
export function problemText(t, { what, allowed }) {
  return allowed ? `${what} · ${t("agents.allowed", { allowed: Array.isArray(allowed) ? allowed.join(", ") : String(allowed) })}` : what;
}

// The id that a document gives its agent, JSON or YAML; empty where it gives none.
export function idOf(text) {
  const place = placesOf(text).get("agent.id");
  if (place && text[place[0]] === '"') return JSON.parse(text.slice(...place));
  return /^agent:[^\S\n]*\n(?:[^\S\n]+.*\n)*?[^\S\n]+id:[^\S\n]*["']?([^\s"'#]+)/m.exec(text)?.[1] ?? "";
}
