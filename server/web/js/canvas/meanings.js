// What nodes do, on one line: asked of the server for the nodes that are seen, and again when they were changed.

const MOST = 200; // nodes of one request
const AGAIN_MS = 5000; // after a request that failed

export function createMeanings({ app, nodes }) {
  const { store, api, path } = app;
  let graph = null; // the graph that is known
  let known = new Map(); // key -> {type, data, process}: what its line was read from
  let lines = new Map(); // key -> line or null
  let isAsking = false;

  const isSame = (one, node) => one && one.type === node.type && one.data === node.data && one.process === node.process;

  function ask() {
    const { graphKey, graphState, past } = store.get();
    if (graph !== graphKey || past) {
      graph = past ? null : graphKey;
      [known, lines] = [new Map(), new Map()];
      nodes.tell(lines);
    }
    if (graphState !== "ready" || past || isAsking) return;
    const wanted = nodes.near().filter((node) => !isSame(known.get(node._key), node)).slice(0, MOST);
    if (wanted.length) read(graphKey, wanted);
  }

  async function read(graphKey, wanted) {
    isAsking = true;
    try {
      const { does } = await api.call("POST", path`/api/graphs/${graphKey}/meanings`, { body: { nodes: wanted.map((node) => node._key) }, isRead: true });
      if (graph === graphKey) take(wanted, does);
      isAsking = false;
      ask(); // the rest, and what changed meanwhile
    } catch {
      setTimeout(() => ((isAsking = false), ask()), AGAIN_MS); // names are enough until then
    }
  }

  function take(wanted, does) {
    for (const { _key, type, data, process } of wanted) {
      known.set(_key, { type, data, process });
      lines.set(_key, Object.hasOwn(does, _key) ? does[_key] : null);
    }
    nodes.tell(lines, wanted.map((node) => node._key));
  }

  return { ask };
}
