// Talks with the program that shows this view: JSON-RPC in messages between windows, as MCP Apps speak it.

const PROTOCOL = "2026-01-26";
const PATIENCE_MS = 10_000;

// Connects to `host` (a window). `on(method, params)` is given its notifications; resolves with what it says of itself.
export async function connectHost(host, { name, version, on }) {
  const asked = new Map(); // id -> what to call with its answer
  let ids = 0;
  const post = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });

  function request(method, params) {
    const id = ++ids;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => (asked.delete(id), reject(new Error(`${method}: no answer`))), PATIENCE_MS);
      asked.set(id, ({ result, error }) => (clearTimeout(timer), asked.delete(id), error ? reject(new Error(`${method}: ${error.message}`)) : resolve(result)));
      post({ id, method, params });
    });
  }

  window.addEventListener("message", ({ source, data }) => {
    if (source !== host || data?.jsonrpc !== "2.0") return;
    if (data.method === undefined) asked.get(data.id)?.(data);
    else if (data.id === undefined) on(data.method, data.params ?? {});
    else if (["ping", "ui/resource-teardown"].includes(data.method)) post({ id: data.id, result: {} });
    else post({ id: data.id, error: { code: -32601, message: "unknown method" } });
  });

  const found = await request("ui/initialize", { appInfo: { name, version }, appCapabilities: { availableDisplayModes: ["inline"] }, protocolVersion: PROTOCOL });
  notify("ui/notifications/initialized");
  return { capabilities: found?.hostCapabilities ?? {}, context: found?.hostContext ?? {}, request, notify };
}
