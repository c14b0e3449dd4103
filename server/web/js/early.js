// Asks the service for what is shown first, while the page's other scripts are still on their way.

import { preferredLanguage } from "./i18n.js";
import { hasSession, kept, keptInTab } from "./kept.js";

const LIMIT_MS = 30_000;
const asked = new Map(); // address -> {token, answer}

// The answer to a request that was sent early by the same person, once; undefined where it was not.
export function takeEarly(address, token) {
  const found = asked.get(address);
  asked.delete(address);
  return found?.token === token ? found.answer : undefined;
}

function ask(path) {
  const [url, token] = [new URL(path, location.origin), keptInTab.get("token") ?? ""];
  const headers = { Accept: "application/json", "X-Nodius-Client": "page", "Accept-Language": preferredLanguage(kept.get("lang")), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const answer = fetch(url, { headers, credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS) });
  answer.catch(() => {}); // said to who takes it
  asked.set(url.href, { token, answer });
}

function begin() {
  const graph = new URLSearchParams(location.hash.slice(1)).get("graph");
  for (const path of ["/api/me", "/api/graphs", ...(graph ? [`/api/graphs/${encodeURIComponent(graph)}/view`] : [])]) ask(path);
}

// The theme that was chosen, before anything is painted in another.
function applyTheme() {
  const theme = kept.get("theme") ?? "system";
  if (theme !== "system") document.documentElement.dataset.theme = theme;
}

if (globalThis.document) applyTheme();
if (globalThis.location && !hasSession()) begin(); // a session has to get its token first; tests read modules without a page
