// REST: requests with the caller's token and language; what fails is one kind of error.

import { takeEarly } from "./early.js";

export class ApiError extends Error {
  constructor({ code, message, retryable = false, status = 0, details = null, warnings = [], requestId = "" }) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { code, retryable, status, details, warnings, requestId });
  }
}

const LIMIT_MS = 30_000; // so long a request may take, its answer read; after that it is given up
const LONG_MS = 300_000; // one that carries a whole graph, or that a model works on
const TRIES = 3; // of a request that only reads
const PAUSE_MS = 500;
const PASSING = [502, 503, 504];

// `renew`: gets another token, and resolves to whether there is one.
export function createApi({ token, renew, language, t, onSignInNeeded }) {
  // `isLong`: its answer or what it sends is a whole graph, or a model works on it; `isRead`: it may be tried again;
  // `signal`: ends it.
  async function call(method, path, { query, body, raw, headers: more = {}, isLong = false, isRead = method === "GET", signal } = {}) {
    const url = new URL(path, location.origin);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
    }
    const headers = { Accept: "application/json", "X-Nodius-Client": "page", "Accept-Language": language(), ...more };
    const sign = () => token() && (headers.Authorization = `Bearer ${token()}`);
    sign();
    if (body !== undefined || raw !== undefined) headers["Content-Type"] = "application/json";
    const request = { method, headers, credentials: "omit", cache: "no-store", body: raw ?? (body === undefined ? undefined : JSON.stringify(body)) };
    let isRenewed = false;
    for (let left = isRead ? TRIES : 1; ; left -= 1) {
      try {
        return await once(url, request, isLong ? LONG_MS : LIMIT_MS, signal);
      } catch (error) {
        if (error.status === 401 && !isRenewed && (isRenewed = await renew())) {
          sign(); // what was refused with 401 was not begun
          left += 1;
          continue;
        }
        if (error.status === 401) onSignInNeeded(error.message);
        const isPassing = ["network", "timeout"].includes(error.code) || PASSING.includes(error.status);
        if (left <= 1 || !isPassing) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  async function once(url, request, limitMs, signal) {
    const ending = new AbortController();
    signal?.addEventListener("abort", () => ending.abort(), { once: true });
    const timer = setTimeout(() => ending.abort(), limitMs);
    try {
      const answer = await ((request.method === "GET" && takeEarly(url.href, token())) || fetch(url, { ...request, signal: ending.signal }));
      return taken(answer, await read(answer));
    } catch (error) {
      if (error instanceof ApiError) throw error;
      const code = ending.signal.aborted ? "timeout" : "network";
      throw new ApiError({ code, message: t(`error.${code}`), retryable: true });
    } finally {
      clearTimeout(timer);
    }
  }

  function taken(answer, found) {
    if (answer.ok) return found;
    throw new ApiError({
      code: found?.error?.code ?? "internal",
      message: found?.error?.message ?? t("error.status", { status: answer.status }),
      retryable: found?.error?.retryable ?? answer.status >= 500,
      details: found?.error?.details ?? null,
      warnings: found?.error?.warnings ?? [],
      requestId: found?.error?.requestId ?? "",
      status: answer.status,
    });
  }

  async function read(answer) {
    try {
      return await answer.json();
    } catch (error) {
      if (error instanceof SyntaxError) return null; // not ours: a proxy answered
      throw error;
    }
  }

  return {
    call,
    get: (path, query, options) => call("GET", path, { query, ...options }),
    post: (path, body, options) => call("POST", path, { body, ...options }),
    put: (path, body, options) => call("PUT", path, { body, ...options }),
    delete: (path, query) => call("DELETE", path, { query }),
  };
}

// Makes a path of parts that may hold anything: path`/api/graphs/${key}/nodes`.
export function path(parts, ...values) {
  return parts.reduce((made, part, i) => made + encodeURIComponent(values[i - 1]) + part);
}
