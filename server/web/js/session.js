// Who is using the page: asks the server, and signs in with a token, or at the identity provider, where the server wants it.

import { h } from "./dom.js";
import { hasSession, keptInTab } from "./kept.js";

const EARLIER_S = 60; // before it expires a token of the provider's session is renewed
const LEAST_S = 5;

export function createSession({ t, openDialog, onRenewed }) {
  let token = invited() ?? keptInTab.get("token") ?? "";
  let hasProvider = false;
  let asking = null;
  let renewing = null;
  let timer = 0;

  function keep(value) {
    token = value;
    keptInTab.put("token", value || null);
  }

  // Gets a new token for the session at the provider; resolves to whether there is one. Tabs do so one after the other.
  function renew() {
    renewing ??= inTurn(ask).finally(() => (renewing = null));
    return renewing;
  }

  const inTurn = (work) => (navigator.locks ? navigator.locks.request("nodius.session", work) : work());

  async function ask() {
    const answer = await post("/auth/token");
    hasProvider = answer !== null && answer.status !== 204;
    if (!hasProvider || !answer.ok) return false;
    const { token: given, expiresIn } = await answer.json();
    token = given; // kept nowhere: the browser holds the session, which no script can read
    clearTimeout(timer);
    timer = setTimeout(() => renew().then((isNew) => isNew && onRenewed()), Math.max(LEAST_S, expiresIn - EARLIER_S) * 1000);
    return true;
  }

  // Where the server says that there is a session, its token is there before anything is asked.
  const begin = () => (hasSession() ? renew() : Promise.resolve(false));

  // Asks for a sign-in, once at a time; resolves when there is one.
  function signIn(reason) {
    asking ??= renew().then((isNew) => isNew || openForm(reason)).finally(() => (asking = null));
    return asking;
  }

  function openForm(reason) {
    return new Promise((resolve) => {
      const field = h("textarea#token", { rows: 4, required: true, autocomplete: "off", spellcheck: "false" });
      const form = h("form.sign-in", { onsubmit: (event) => {
        event.preventDefault();
        keep(field.value.trim().replace(/^Bearer\s+/i, ""));
        dialog.close();
        resolve();
      } },
        h("label", { for: "token" }, t("session.token")), field,
        h("div.dialog-actions", h("button", { type: "submit", class: hasProvider ? undefined : "primary" }, t("session.sign_in"))));
      const there = h("button.primary", { type: "button", onclick: () => location.assign(`/auth/login?next=${encodeURIComponent(`/${location.hash}`)}`) }, t("session.at_provider"));
      const said = reason && token ? h("span.warn-text", reason, " ") : null; // who had no token knows that
      const why = h("p", said, t(hasProvider ? "session.why_provider" : "session.why"));
      const content = h("div.sign-in", why, hasProvider ? [h("div.dialog-actions", there), h("details", h("summary", t("session.with_token")), form)] : form);
      const dialog = openDialog({ title: t("session.title"), content, modal: true, closable: false });
      (hasProvider ? there : field).focus();
    });
  }

  // Leaves the page signed out, at the provider as well.
  async function signOut() {
    const answer = keptInTab.get("token") ? null : await post("/auth/logout");
    keep("");
    const { url } = answer?.ok ? await answer.json() : { url: "/" };
    if (url === "/") location.hash = "";
    if (url === "/") location.reload();
    else location.assign(url);
  }

  return { get token() { return token; }, begin, renew, signIn, signOut };
}

// The key of an invitation's link, taken out of the address and kept until the tab is closed.
function invited() {
  const key = /^#invite=([\w.-]+)$/.exec(location.hash)?.[1];
  if (!key) return null;
  keptInTab.put("token", key);
  history.replaceState(null, "", location.pathname);
  return key;
}

const post = (address) => fetch(address, { method: "POST", cache: "no-store" }).catch(() => null);
