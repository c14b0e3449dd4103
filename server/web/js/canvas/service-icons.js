// The pictures of node types: of the service that a type is called after, or else of what its kind does.

import { iconOfType, learnIcons } from "../icons.js";

const MOST = 100; // names of one request
const BUSY_MS = 300;
const ROLE = /^(?:lmChat|lm|embeddings|vectorStore|memory|reranker|tool)(?=[A-Z])|(?:Trigger|Tool)$/g;
// Names of services that are words, too: they are meant where a type names its package.
const WORDS = new Set(["box", "coda", "cockpit", "ghost", "git", "line", "linear", "matrix", "medium", "paddle", "wise", "x"]);
const PLAIN = [undefined, null, "Box", "Database"]; // what importers give where they know no more than the category
const KINDS = [
  [/^(?:http|webhook|respondtowebhook|graphql|websocket|tcp|udp|url)/, "Globe"],
  [/wait|delay|schedule|cron|interval|^date|timer/, "Clock"],
  [/mail|imap|smtp/, "Mail"],
  [/file|pdf|ftp|^s3|compress|document/, "File"],
  [/sql|database|redis|mongo|vectorstore|postgres/, "Database"],
  [/sheet|table|^csv|aggregate|summarize|^sort|^limit/, "Table"],
  [/^filter/, "Filter"],
  [/^if$|^(?:switch|merge|compare|split|join|loop)/, "GitBranch"],
  [/^(?:set|change|template)$|^(?:rename|edit)/, "pencil"],
  [/code|function|exec|^ssh/, "Code"],
  [/openai|agent|chain|classifier|extractor|parser|gpt|llm|assistant/, "Bot"],
  [/^(?:chat|slack|sms|message|telegram|discord)|teams/, "chat"],
];

// The name of the service that a type may be called after: "n8n-nodes-base.googleSheetsTool" is "googlesheets".
export function serviceOf(type) {
  const name = type.split(/[./]/).at(-1).replace(ROLE, "").toLowerCase().replace(/[^a-z0-9]/g, "");
  return WORDS.has(name) && !type.includes(".") ? "" : name;
}

export function kindOf(type) {
  const name = type.split(/[./]/).at(-1).toLowerCase();
  return KINDS.find(([pattern]) => pattern.test(name))?.[1];
}

export function createServiceIcons({ app, nodes, stage }) {
  const { store } = app;
  const asked = new Set(); // types
  let isAsking = false;

  async function ask() {
    const types = [...new Set(nodes.near().map((node) => node.type))].filter((type) => !asked.has(type)).slice(0, MOST);
    if (!types.length || isAsking) return;
    isAsking = true;
    for (const type of types) asked.add(type);
    const names = [...new Set(types.map(serviceOf).filter(Boolean))];
    const paths = await read(names);
    isAsking = false;
    take(types, paths);
  }

  async function read(names) {
    try {
      const answer = await fetch(`/web/icons?names=${names.join(",")}`);
      return answer.ok ? (await answer.json()).icons : {};
    } catch {
      return {}; // the shape of the kind is enough
    }
  }

  function take(types, paths) {
    if (stage.matches(".dragging, .connecting")) { // nodes are not drawn again under the pointer
      setTimeout(take, BUSY_MS, types, paths);
      return;
    }
    const { nodeTypes } = store.get();
    const found = types.map((type) => [type, Object.hasOwn(paths, serviceOf(type)) ? serviceOf(type) : PLAIN.includes(nodeTypes.get(type)?.icon) ? kindOf(type) : undefined]);
    learnIcons(paths, found.filter(([type, name]) => name && name !== iconOfType(type)));
    if (found.some(([, name]) => name)) store.set({ nodeTypes: new Map(nodeTypes) }); // all that shows types is drawn again
    ask();
  }

  return { ask };
}
