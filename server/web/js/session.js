// Who is using the page: asks the server, and signs in with a token where the server wants one.

import { h } from "./dom.js";
import { keptInTab } from "./kept.js";

export function createSession({ t, openDialog }) {
  let token = keptInTab.get("token") ?? "";
  let asking = null;

  function keep(value) {
    token = value;
    keptInTab.put("token", value || null);
  }

  // Asks for a token, once at a time; resolves when one is given.
  function signIn(reason) {
    asking ??= new Promise((resolve) => {
      const field = h("textarea#token", {
        rows: 4, required: true, autocomplete: "off", spellcheck: "false", "aria-describedby": "token-why",
      });
      const form = h("form.sign-in", { onsubmit: (event) => {
        event.preventDefault();
        keep(field.value.trim().replace(/^Bearer\s+/i, ""));
        dialog.close();
        asking = null;
        resolve();
      } },
        h("p#token-why", reason ? h("span.warn-text", reason, " ") : null, t("session.why")),
        h("label", { for: "token" }, t("session.token")), field,
        h("div.dialog-actions", h("button.primary", { type: "submit" }, t("session.sign_in"))));
      const dialog = openDialog({ title: t("session.title"), content: form, modal: true, closable: false });
      field.focus();
    });
    return asking;
  }

  return { get token() { return token; }, signIn, signOut: () => keep(""), get isAsking() { return asking !== null; } };
}
