// REST: requests with the caller's token and language; what fails is one kind of error.

export class ApiError extends Error {
  constructor({ code, message, retryable = false, status = 0, details = null, requestId = "" }) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { code, retryable, status, details, requestId });
  }
}

export function createApi({ token, language, t, onSignInNeeded }) {
  async function call(method, path, { query, body, raw, signal } = {}) {
    const url = new URL(path, location.origin);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
    }
    const headers = { Accept: "application/json", "Accept-Language": language() };
    if (token()) headers.Authorization = `Bearer ${token()}`;
    if (body !== undefined || raw !== undefined) headers["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await fetch(url, {
        method, headers, signal, credentials: "omit", cache: "no-store",
        body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError({ code: "network", message: t("error.network"), retryable: true });
    }
    const found = await read(answer);
    if (answer.ok) return found;
    if (answer.status === 401) onSignInNeeded(found?.error?.message);
    throw new ApiError({
      code: found?.error?.code ?? "internal",
      message: found?.error?.message ?? t("error.status", { status: answer.status }),
      retryable: found?.error?.retryable ?? answer.status >= 500,
      details: found?.error?.details ?? null,
      requestId: found?.error?.requestId ?? "",
      status: answer.status,
    });
  }

  async function read(answer) {
    try {
      return await answer.json();
    } catch {
      return null; // not ours: a proxy answered
    }
  }

  return {
    call,
    get: (path, query, options) => call("GET", path, { query, ...options }),
    post: (path, body, options) => call("POST", path, { body, ...options }),
    delete: (path, query) => call("DELETE", path, { query }),
  };
}

// Makes a path of parts that may hold anything: path`/api/graphs/${key}/nodes`.
export function path(parts, ...values) {
  return parts.reduce((made, part, i) => made + encodeURIComponent(values[i - 1]) + part);
}
