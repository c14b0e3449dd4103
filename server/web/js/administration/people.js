// People and programs that have a key: invite by link, with a role; revoke. Others sign in at the identity provider.

import { ApiError } from "../api.js";
import { h, named, replace } from "../dom.js";
import { timeText } from "../names.js";
import { ROLES } from "../roles.js";

const DAYS = [7, 30, 90, 365];

export function peopleSection(app, view) {
  const { t, api, store } = app;
  const list = h("div");
  const made = h("div", { role: "status" });
  const user = h("input", { required: true, maxlength: 200, autocomplete: "off", spellcheck: "false" });
  const role = h("select", ROLES.map((one) => h("option", { value: one, selected: one === "editor" }, t(`role.${one}`))));
  const days = h("select", DAYS.map((n) => h("option", { value: String(n), selected: n === 90 }, t("admin.days", { n }))));
  const form = h("form.invite", { onsubmit: (event) => (event.preventDefault(), asked(invite)) },
    named(t("admin.invite_who"), user), named(t("admin.invite_role"), role), named(t("admin.invite_days"), days), h("button.primary", { type: "submit" }, t("admin.invite")));
  if (view.hasSignIn) asked(load);
  return [h("p", t(view.hasSignIn ? "admin.people_hint" : "admin.people_local")), providerRoles(),
    h("dl.roles", ROLES.map((one) => [h("dt", t(`role.${one}`)), h("dd", t(`role.may.${one}`))])), view.hasSignIn ? [form, made, list] : null];

  function providerRoles() {
    const lines = Object.entries(view.roles).flatMap(([claim, names]) => Object.entries(names).map(([name, role]) => `${claim}: ${name} → ${t(`role.${role}`)}`));
    return lines.length ? h("p.note", t("admin.provider_roles"), " ", lines.join(" · ")) : null;
  }

  async function load() {
    const { keys } = await api.get("/api/keys");
    const now = Date.now();
    const valid = keys.filter((key) => !key.revoked && key.expires > now);
    const { lang } = store.get();
    replace(list, valid.length ? h("table.keys-table", h("thead", h("tr", ["who", "role", "through", "until", "revoke"].map((name) => h("th", { scope: "col" }, name === "revoke" ? h("span.sr-only", t("admin.revoke")) : t(`admin.key_${name}`))))),
      h("tbody", valid.map((key) => h("tr", h("th", { scope: "row" }, key.user, key.name ? h("span.muted", ` ${key.name}`) : null), h("td", t(`role.${key.role}`)), h("td", key.channels.length ? key.channels.join(", ") : t("admin.through_all")), h("td", timeText(key.expires, lang)),
        h("td", h("button.link", { type: "button", "aria-label": `${t("admin.revoke")}: ${key.user}`, onclick: () => asked(() => revoke(key)) }, t("admin.revoke"))))))) : h("p.note", t("admin.no_keys")));
  }

  async function invite() {
    const { key } = await api.post("/api/keys", { user: user.value.trim(), role: role.value, days: Number(days.value), channels: [] });
    const link = `${location.origin}/#invite=${key}`;
    const copy = h("button", { type: "button", onclick: () => navigator.clipboard.writeText(link).then(() => app.toast("ok", t("admin.copied"))) }, t("admin.copy_link"));
    replace(made, h("p", t("admin.invited", { user: user.value.trim() })), h("code.trial-line", { tabIndex: 0 }, link), h("div", copy));
    user.value = "";
    await load();
  }

  async function revoke({ id, user: name }) {
    if (!(await app.confirm({ title: t("admin.revoke"), text: t("admin.revoke_sure", { user: name }), ok: t("admin.revoke"), danger: true }))) return;
    await api.delete(`/api/keys/${encodeURIComponent(id)}`);
    await load();
  }

  async function asked(work) {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
  }
}
