// The steps of one answer as a tree, from the spans that are stored of it. Pure.
//
// A step: {id, kind, facts, at, ms, isFailed, children}. `at` and `ms` are milliseconds on the axis of the answer,
// from which the time is left out in which it waited for a person; `ms` is null where a step took no time of its own.

// Returns {steps, ms, waited}: the steps of a turn, the length of its axis, and how long it waited.
export function stepsOf(turn) {
  const parts = partsOf(turn.spans);
  const steps = turn.question ? [step("question", { text: turn.question }, 0, null)] : [];
  let at = 0; // where the part begins on the axis
  let waited = 0;
  parts.forEach((part, i) => {
    const made = partSteps(part, at, i === 0 ? turn.context : []);
    const next = parts[i + 1];
    const end = made.at(-1);
    if (end?.kind === "wait" && next) waited += end.facts.waited = Math.max(0, next.start - part.end);
    steps.push(...made);
    at += part.end - part.start;
  });
  number(steps, String(turn.turn));
  return { steps, ms: at, waited };
}

function step(kind, facts, at, ms, children = [], isFailed = false) {
  return { id: "", kind, facts, at, ms, isFailed, children };
}

// Ids that stay when more is read: the place in the tree.
function number(steps, prefix) {
  steps.forEach((one, i) => {
    one.id = `${prefix}.${i}`;
    number(one.children, one.id);
  });
}

// A part ends with the span of the agent: the turn was answered then, or waited for a person.
function partsOf(spans) {
  const parts = [];
  let inside = [];
  for (const span of spans) {
    inside.push(span);
    if (span.operation === "invoke_agent") parts.push(inside), (inside = []);
  }
  if (inside.length) parts.push(inside); // more spans than are kept
  return parts.map((part) => ({ spans: part, start: Math.min(...part.map((span) => span.start)), end: Math.max(...part.map((span) => span.start + span.ms)) }));
}

function partSteps({ spans, start }, base, context) {
  const place = (span) => base + Math.max(0, span.start - start);
  const steps = [];
  let search = null;
  let model = null;
  let embedding = null;
  for (const span of spans) {
    const { operation, attributes: facts, ms, failed } = span;
    const made = (kind, children) => step(kind, facts, place(span), ms, children, Boolean(failed));
    if (operation === "embeddings") embedding = made("embedding");
    else if (operation === "retrieval") steps.push((search = made("search", searchSteps(span, place(span), embedding))));
    else if (operation === "chat" && facts.messages === undefined && search && !model) search.children.push(made("second_look"));
    else if (operation === "chat") {
      const isRules = facts.provider === "offline";
      if (context.length && !model) steps.push(step("saw", { context, tokens: facts.inputTokens, isRules }, place(span), null));
      steps.push((model = made(isRules ? "rules" : "model")));
    } else if (operation === "execute_tool") {
      const proposals = facts.approvalId ? [step("proposal", { approvalId: facts.approvalId }, place(span) + ms, null)] : [];
      (model?.children ?? steps).push(made("tool", proposals));
    } else if (operation === "invoke_agent") steps.push(...endSteps(span, place(span) + ms));
  }
  return steps;
}

// What each search found, and the stages that took time: the searches run and are ranked together.
function searchSteps({ attributes: facts }, at, embedding) {
  const { embed = 0, search = null, read } = facts.stages ?? {};
  const found = (facts.searches ?? []).map((one) => step("by", one, at + embed, null));
  return [
    ...(embedding && !facts.notes?.includes("no-embedder") ? [embedding] : []),
    ...(found.length ? [step("searches", { n: found.length }, at + embed, search, found)] : []),
    ...(read === undefined ? [] : [step("read", { edges: facts.edges, near: (facts.nodes ?? []).filter(isNear).length }, at + embed + search, read)]),
    step("chosen", { nodes: facts.nodes ?? [] }, at, null),
  ];
}

const isNear = ({ reasons }) => reasons.some((reason) => /^(near:|depth-[1-9])/.test(reason));

function endSteps({ attributes: facts, failed }, at) {
  const text = facts.answer ?? "";
  const said = text ? [step("answer", { text, chars: facts.answerChars ?? text.length }, at, null)] : [];
  if (failed) return [...said, step("failed", {}, at, null, [], true)];
  return ["waiting", "limit"].includes(facts.status) ? [step("wait", { status: facts.status }, at, null)] : said;
}

// The sums of a turn's model calls; `cost` is null where a price is not known.
export function sumsOf(spans) {
  const calls = spans.filter((span) => span.operation === "chat" && span.attributes.provider !== "offline").map((span) => span.attributes);
  const sum = (name) => calls.reduce((total, facts) => total + (facts[name] ?? 0), 0);
  return { calls: calls.length, read: sum("inputTokens"), written: sum("outputTokens"), cached: sum("cachedTokens"), cost: calls.some((facts) => facts.costUsd === undefined) ? null : sum("costUsd") };
}
