// The page's one WebSocket: requests and their answers, streams of a turn, news of others; it comes back by itself.

import { ApiError } from "./api.js";

const PING_MS = 20_000;
const SILENCE_MS = 12_000;
const ANSWER_MS = 30_000;
const LONGEST_MS = 15_000;
const SIGN_IN_CODES = [4001, 4002, 4003];

export function createSocket({ url, token, t, onState, onSignInNeeded }) {
  let socket = null;
  let attempt = 0;
  let wanted = false;
  let timer = 0;
  let watch = 0;
  let next = 1;
  let heard = 0;
  let isReady = false;
  const requests = new Map();
  const streams = new Map();
  const listeners = new Map();
  let ready = deferred();

  function start() {
    wanted = true;
    connect();
  }

  function stop() {
    wanted = false;
    clearTimeout(timer);
    socket?.close(1000);
  }

  function connect() {
    clearTimeout(timer);
    if (socket) return;
    onState("connecting");
    const made = new WebSocket(url());
    socket = made;
    made.onopen = () => opened(made);
    made.onmessage = (event) => made === socket && received(event.data);
    made.onclose = (event) => made === socket && closed(event.code);
  }

  function opened(made) {
    heard = Date.now();
    watch = setInterval(() => look(made), PING_MS / 2);
    if (token()) send({ type: "authenticate", token: token(), _id: next++ });
    else nowReady();
  }

  // Tells an open connection the newer token, before the one it has expires.
  function signAgain() {
    if (isReady && token()) send({ type: "authenticate", token: token(), _id: next++ });
  }

  function nowReady() {
    isReady = true;
    attempt = 0;
    onState("open");
    ready.resolve();
    emit("open", {});
  }

  // Asks whether the other end still lives; a line that went dead says nothing by itself.
  function look(made) {
    const silent = Date.now() - heard;
    if (silent > PING_MS + SILENCE_MS) drop(made);
    else if (silent > PING_MS / 2) send({ type: "__ping__" });
  }

  function drop(made) {
    made.onclose = null;
    made.close();
    closed(1006);
  }

  function closed(code) {
    clearInterval(watch);
    socket = null;
    isReady = false;
    ready.promise.catch(() => {});
    ready = deferred();
    const error = new ApiError({ code: "network", message: t("error.disconnected"), retryable: true });
    for (const [id, request] of requests) {
      requests.delete(id);
      request.reject(error);
    }
    for (const [id, stream] of streams) {
      streams.delete(id);
      if (!stream.isDone) stream.onEvent({ type: "ai:error", _id: id, error: error.message, code: error.code, retryable: true });
      stream.fail(error);
    }
    onState("closed");
    emit("close", { code });
    if (!wanted) return;
    if (SIGN_IN_CODES.includes(code)) onSignInNeeded(t("session.again"));
    else again();
  }

  function again() {
    const wait = Math.min(LONGEST_MS, 400 * 2 ** attempt) * (0.6 + Math.random() * 0.8);
    attempt += 1;
    clearTimeout(timer);
    timer = setTimeout(connect, wait);
  }

  // Tries at once: somebody asked for it, or the network came back.
  function reconnect() {
    if (!wanted) return;
    attempt = 0;
    if (!socket) connect();
  }

  function send(message) {
    socket.send(JSON.stringify(message));
  }

  function received(text) {
    heard = Date.now();
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return; // not ours
    }
    if (message.type === "authResult") {
      if (!isReady && message.success) nowReady();
      else if (isReady && !message.success) onSignInNeeded(message.error); // the token has expired
      return; // refused: the close code says more
    }
    const stream = streams.get(message._id);
    if (stream && /^(ai|calls?):/.test(message.type)) take(stream, message);
    const request = requests.get(message._id);
    if (request) {
      requests.delete(message._id);
      answered(request, message);
    }
    emit(message.type, message);
  }

  function answered(request, message) {
    clearTimeout(request.timer);
    if (message._response?.status === false || message.type === "ai:error" || message.type === "error") {
      const text = message._response?.message ?? message.error ?? t("error.refused");
      request.reject(new ApiError({ code: message.code ?? message._response?.code ?? "refused", message: text, retryable: message.retryable ?? false }));
    } else request.resolve(message);
  }

  function take(stream, message) {
    if (message.type === "ai:complete") stream.threadId = message.threadId;
    try {
      stream.onEvent(message);
    } catch (error) {
      reportError(error);
    }
    if (message.type === "ai:complete") stream.finish(message);
    if (message.type === "ai:error") {
      const { error, code = "internal", retryable = false, details = null } = message;
      stream.fail(new ApiError({ code, message: error, retryable, details }));
    }
  }

  function emit(type, message) {
    for (const fn of [...(listeners.get(type) ?? []), ...(listeners.get("*") ?? [])]) {
      try {
        fn(message);
      } catch (error) {
        reportError(error);
      }
    }
  }

  // Calls fn for every message of a type ("*": any; "open", "close": the connection's own); returns the way to stop.
  function on(type, fn) {
    if (!listeners.has(type)) listeners.set(type, new Set());
    listeners.get(type).add(fn);
    return () => listeners.get(type).delete(fn);
  }

  // Sends a message and waits for its answer. Rejects with ApiError: refused, connection lost, no answer in time.
  async function request(message, { timeoutMs = ANSWER_MS } = {}) {
    if (!isReady) throw new ApiError({ code: "network", message: t("error.disconnected"), retryable: true });
    const id = next++;
    return new Promise((resolve, reject) => {
      const late = () => {
        requests.delete(id);
        reject(new ApiError({ code: "timeout", message: t("error.timeout"), retryable: true }));
      };
      requests.set(id, { resolve, reject, timer: setTimeout(late, timeoutMs) });
      send({ ...message, _id: id });
    });
  }

  // Sends a message of a conversation. onEvent gets all its events, also those after its completion (a decision made
  // elsewhere goes on under the same id) until close(). `done` is its ai:complete, or rejects with ApiError.
  function stream(message, onEvent) {
    const id = next++;
    const done = deferred();
    const made = {
      onEvent, isDone: false, threadId: message.threadId ?? "",
      finish: (value) => ((made.isDone = true), done.resolve(value)),
      fail: (error) => ((made.isDone = true), done.reject(error)),
    };
    done.promise.catch(() => {});
    if (!isReady) {
      made.fail(new ApiError({ code: "network", message: t("error.disconnected"), retryable: true }));
    } else {
      streams.set(id, made);
      send({ ...message, _id: id });
    }
    return {
      id,
      done: done.promise,
      cancel: (threadId) => isReady && send({ type: "ai:interrupt", _id: id, threadId: threadId ?? made.threadId }),
      close: () => streams.delete(id),
    };
  }

  addEventListener("online", reconnect);
  addEventListener("offline", () => socket && drop(socket));
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && reconnect());

  return { start, stop, reconnect, signAgain, request, stream, on, send, opened: () => ready.promise, get isOpen() { return isReady; } };
}

function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}
