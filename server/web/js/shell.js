// The frame around the canvas: top bar, side panel's tabs and width, bottom bar of narrow screens, language and theme.

import { PRODUCTS, stateElement } from "./connections/facts.js";
import { createParts, h } from "./dom.js";
import { languageName, loadTexts, nextLanguage } from "./i18n.js";
import { icon } from "./icons.js";
import { kept } from "./kept.js";
import { hue, personName } from "./names.js";
import { PANELS, panelsFor, TABS } from "./panels.js";
import { mayAdminister, mayEdit } from "./roles.js";

const PICTURES = { canvas: "graph", settings: "Settings" }; // of panels that are not called as their picture is
const THEMES = ["system", "light", "dark"];
const LOST_MS = 1500;
const WIDTHS = { least: 320, most: 760, step: 24 };

export function createShell(app) {
  const { store, t } = app;
  const top = document.getElementById("top");
  const side = document.getElementById("side");
  const tabs = document.getElementById("panel-tabs");
  const bottom = document.getElementById("bottom");
  const logo = top.querySelector("img");
  const right = h("div.top-right");
  const [drawTopParts, drawRight, drawTabParts, drawBottomParts] = [top, right, tabs, bottom].map(createParts);
  let lostTimer = 0;
  let wasConnected = false;

  function drawTop() {
    const { graph, graphKey, me, lang, theme } = store.get();
    const name = graph?.name ?? graphKey;
    const isSignedIn = me && app.session.token;
    const part = (key, facts, make) => ({ key, facts: [lang, ...facts], make });
    drawTopParts([
      part("brand", [], () => h("button.brand", { type: "button", title: t("app.graphs"), "aria-label": t("app.home"), onclick: () => app.live.close() }, logo, h("span.brand-name", "Nodius"))),
      graphKey ? part("crumbs", [name, graph?.description], () => h("nav.crumbs", { "aria-label": t("app.crumbs") },
        h("button.crumb", { type: "button", onclick: () => app.live.close() }, t("graphs.title")),
        h("span.crumb-mark", { "aria-hidden": "true" }, "/"),
        h("span.crumb-now", { title: graph?.description ?? "" }, h("h1", name)))) : part("grow", [], () => h("span.grow")),
      part("right", [], () => right),
    ]);
    drawRight([
      ...linkMarks(part), ...embeddingMark(part), ...people(part), ...saveMark(part), connectionMark(part),
      ...(graphKey && graph ? [part("export", [graphKey, name], () => button("download", t("graphs.export"), () => app.graphs.exportGraph({ graphKey, name }), "wide-only"))] : []),
      ...(graphKey ? [part("history", [], () => button("history", t("canvas.history"), openTimeline))] : []),
      ...(graphKey && mayEdit(me) ? [part("servers", [], () => button("plug", t("servers.title"), async () => (await import("./connections/list.js")).showConnections(app), "wide-only"))] : []),
      part("help", [], () => button("keyboard", t("app.help"), async () => (await import("./help.js")).showHelp(app), "wide-only")),
      ...(mayAdminister(me) && !graphKey ? [part("settings", [], () => button(PICTURES.settings, t("panel.settings"), () => store.set({ isAside: true, panel: "settings" })))] : []),
      part("theme", [theme], () => button({ system: "system", light: "sun", dark: "moon" }[theme], t("app.theme", { theme: t(`theme.${theme}`) }), nextTheme, "theme-switch")),
      part("language", [], () => h("button.icon-button.lang-switch", { type: "button", title: languageName(nextLanguage(lang)), "aria-label": languageName(nextLanguage(lang)), onclick: changeLanguage },
        nextLanguage(lang).toUpperCase())),
      ...(isSignedIn ? [part("exit", [me.username, me.userId, me.role], () => button("exit", `${t("app.sign_out")}: ${t("app.signed_in", { user: me.username || me.userId, role: me.role })}`, app.session.signOut))] : []),
    ]);
    drawTitle();
  }

  // The browser's tab says how many proposals wait, too.
  function drawTitle() {
    const { graph, badges } = store.get();
    document.title = `${badges?.review ? `(${badges.review}) ` : ""}${graph ? `${graph.name} · ` : ""}Nodius`;
  }

  async function openTimeline() {
    store.set({ panel: "canvas" });
    (await import("./history/timeline.js")).toggleTimeline(app);
  }

  function button(name, label, onclick, extra) {
    return h("button.icon-button", { type: "button", class: extra, title: label, "aria-label": label, onclick }, icon(name));
  }

  function people(part) {
    const { editors, me } = store.get();
    const others = [...new Set(editors.map((editor) => editor.userId))].filter((user) => user !== me?.userId);
    const windows = editors.filter((editor) => editor.userId === me?.userId).reduce((sum, editor) => sum + editor.windows, 0);
    const names = [...others.map((user) => personName(app, user)), ...(windows > 1 ? [`${t("people.you")} ×${windows}`] : [])];
    const label = t("people.here", { names: names.join(", ") });
    return names.length ? [part("people", [label], () => h("div.people", { title: label, role: "img", "aria-label": label },
      names.slice(0, 4).map((name) => h("span.person", { style: { "--hue": String(hue(name)) } }, [...name][0]?.toUpperCase() ?? "?")),
      names.length > 4 ? h("span.person.more", `+${names.length - 4}`) : null))] : [];
  }

  // Where the graph stands to the servers that it is connected with.
  function linkMarks(part) {
    const { links } = store.get();
    const show = async () => (await import("./connections/linked.js")).showLinked(app);
    return links.map((link) => part(`link-${link.connection}-${link.id}`, [link.kind, link.state], () => h("button.link-mark", { type: "button", "aria-label": `${t("servers.of_graph")}: ${PRODUCTS[link.kind]}, ${t(`servers.state.${link.state}`)}`, title: t(`servers.says.${link.state}`, { product: PRODUCTS[link.kind] }), onclick: show },
      h("span.link-product", PRODUCTS[link.kind]), stateElement(app, link.state))));
  }

  // How many nodes of the graph cannot be found by meaning yet.
  function embeddingMark(part) {
    const { embedding, graphKey } = store.get();
    if (!embedding || !graphKey) return [];
    return [part("embedding", [embedding], () => h("span.embedding-mark.wide-only", t("graphs.embedding", { n: embedding })))];
  }

  function saveMark(part) {
    const { saveStatus: status, connection } = store.get();
    if (!status || connection !== "open") return [];
    const kind = status.error ? "failed" : !status.hasUnsavedChanges ? "saved" : status.autoSaveEnabled ? "unsaved" : "off";
    const label = t(`save.${kind}`);
    const save = () => app.socket.request({ type: "forceSave" }).catch((error) => app.toast("error", error.message));
    return [part("save", [kind], () => (kind === "saved" ? h("span.save-mark", { title: label, class: kind }, icon("check"), h("span.sr-only", label))
      : h("button.save-mark.icon-button", { type: "button", class: kind, title: `${label}. ${t("save.now")}`, "aria-label": `${label}. ${t("save.now")}`, onclick: save }, icon("save"))))];
  }

  function connectionMark(part) {
    const { notEditable, connection } = store.get();
    const isLookedAt = connection === "open" && notEditable;
    const label = t(`connection.${isLookedAt ? "look" : connection}`);
    const title = isLookedAt ? t(notEditable.isElsewhere ? "canvas.elsewhere" : "canvas.not_live", notEditable) : label;
    return part("connection", [connection, title], () => h("span.connection", { class: isLookedAt ? "open look" : connection, role: "status", title },
      h("span.dot", { "aria-hidden": "true" }), h("span.connection-text", label)));
  }

  function nextTheme() {
    const { theme } = store.get();
    store.set({ theme: THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] });
  }

  async function changeLanguage() {
    const lang = nextLanguage(store.get().lang);
    try {
      await loadTexts(lang);
    } catch {
      if (!(await app.updates.look())) app.toast("error", t("error.network"));
      return;
    }
    store.set({ lang });
    app.socket.stop();
    app.socket.start();
  }

  function drawTabs() {
    const { panel, badges, lang, me } = store.get();
    const panels = panelsFor(me);
    const shown = panels.includes(panel) ? panel : "chat";
    const count = (name) => badges?.[name] ?? 0;
    drawTabParts(panels.map((name) => ({ key: name, facts: [lang, name === shown, count(name)], make: () => h(`button.tab#tab-${name}`, {
      type: "button", role: "tab", "aria-selected": String(name === shown), "aria-controls": `panel-${name}`,
      class: TABS.includes(name) ? undefined : "is-picture", title: TABS.includes(name) ? undefined : t(`panel.${name}`),
      tabIndex: name === shown ? 0 : -1, onclick: () => store.set({ panel: name }), onkeydown: tabKey,
    }, TABS.includes(name) ? t(`panel.${name}`) : [icon(PICTURES[name] ?? name), h("span.sr-only", t(`panel.${name}`))], badge(count(name))) })));
    for (const name of PANELS) document.getElementById(`panel-${name}`).hidden = name !== shown;
    side.setAttribute("aria-label", t(`panel.${shown}`));
    document.body.dataset.panel = panel === "canvas" ? panel : shown;
    const others = panels.filter((name) => !TABS.includes(name));
    const more = others.reduce((sum, name) => sum + count(name), 0);
    drawBottomParts([
      ...["canvas", ...TABS].map((name) => ({ key: name, facts: [lang, name === panel, count(name)], make: () => bottomButton(name, name === panel, count(name), () => store.set({ panel: name })) })),
      { key: "more", facts: [lang, others.includes(panel), more, others.join()], make: () => bottomButton("more", others.includes(panel), more, (event) => openMore(event.currentTarget, others), { "aria-haspopup": "menu" }) },
    ]);
  }

  function bottomButton(name, isShown, count, onclick, props = {}) {
    return h("button", { type: "button", class: isShown ? "on" : undefined, "aria-current": isShown ? "page" : undefined, onclick, ...props },
      icon(PICTURES[name] ?? name), h("span", t(`panel.${name}`)), badge(count));
  }

  // The panels that have no place of their own on a narrow screen.
  async function openMore(button, names) {
    const { right, top: above } = button.getBoundingClientRect();
    const { openMenu } = await import("./canvas/context-menu.js");
    openMenu(app, names.map((name) => ({ id: name, label: `panel.${name}`, run: () => store.set({ panel: name }) })), {}, right, above);
  }

  // Other parts may set `badges: {review: 2}` in the store.
  const badge = (count) => (count ? h("span.badge", String(count)) : null);

  function tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = panelsFor(store.get().me);
    const next = names[(names.indexOf(event.currentTarget.id.slice(4)) + step + names.length) % names.length];
    store.set({ panel: next });
    document.getElementById(`tab-${next}`).focus();
    event.preventDefault();
  }

  function applyTheme(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    kept.put("theme", theme);
    app.canvas?.redraw();
  }

  function applyLanguage(lang) {
    document.documentElement.lang = lang;
    document.getElementById("skip").textContent = t("app.skip");
    kept.put("lang", lang);
    drawTop();
    drawTabs();
  }

  // Says that the connection is lost, but not for a moment's break.
  function connectionChanged(now) {
    if (now === "open") {
      clearTimeout(lostTimer);
      lostTimer = 0;
      if (document.body.dataset.offline) app.toast("ok", t("connection.back"));
      delete document.body.dataset.offline;
      if (wasConnected) app.updates.look(); // the server was perhaps started again
      wasConnected = true;
    } else if (now === "closed") lostTimer ||= setTimeout(() => (document.body.dataset.offline = "true"), LOST_MS);
    drawTop();
  }

  const grip = createGrip(app, side);
  side.prepend(grip);
  applyTheme(store.get().theme);
  applyLanguage(store.get().lang);
  store.on("theme", (theme) => (applyTheme(theme), drawTop()));
  store.on("lang", applyLanguage);
  store.on("connection", connectionChanged);
  for (const part of ["graph", "graphKey", "me", "editors", "saveStatus", "notEditable", "embedding", "names", "links"]) store.on(part, drawTop);
  store.on("panel", drawTabs);
  store.on("badges", () => (drawTabs(), drawTitle()));
  store.on("me", drawTabs);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.canvas.redraw());
  return { drawTop };
}

// The edge between canvas and side panel: drag it, or move it with the arrow keys.
function createGrip({ store, t }, side) {
  const put = (width) => {
    const fit = Math.round(Math.min(WIDTHS.most, Math.max(WIDTHS.least, width)));
    document.documentElement.style.setProperty("--side-width", `${fit}px`);
    kept.put("side", String(fit));
    grip.setAttribute("aria-valuenow", String(fit));
  };
  const grip = h("div.grip", {
    role: "separator", tabIndex: 0, "aria-orientation": "vertical", "aria-label": t("app.resize"),
    "aria-valuemin": WIDTHS.least, "aria-valuemax": WIDTHS.most, "aria-valuenow": side.offsetWidth,
    onpointerdown: (event) => {
      grip.setPointerCapture(event.pointerId);
      grip.onpointermove = (move) => put(innerWidth - move.clientX);
      grip.onpointerup = () => (grip.onpointermove = null);
    },
    onkeydown: (event) => {
      const step = { ArrowLeft: WIDTHS.step, ArrowRight: -WIDTHS.step }[event.key];
      if (!step) return;
      put(side.offsetWidth + step);
      event.preventDefault();
    },
  });
  store.on("lang", () => grip.setAttribute("aria-label", t("app.resize")));
  if (Number(kept.get("side"))) put(Number(kept.get("side")));
  return grip;
}
