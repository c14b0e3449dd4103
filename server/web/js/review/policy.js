// Who must be asked: for which classes of change each level wants a person. A level can only demand more than the others.

import { ApiError } from "../api.js";
import { h, named, replace } from "../dom.js";
import { mayAdminister } from "../roles.js";

const CLASSES = ["layout", "content", "structure", "delete", "code", "types"];

// Opens the dialog: settings are read, the workspace is set by admins, the open graph and its node types by reviewers.
export async function openPolicy(app) {
  const { t, store, api } = app;
  const { graphKey, graph, nodeTypes, me } = store.get();
  const rows = [];
  const list = h("div.policy-levels");
  const problem = h("p.field-error", { role: "alert", hidden: true });
  const save = h("button.primary", { type: "submit", form: "policy-form" }, t("policy.save"));
  const form = h("form#policy-form", { onsubmit: (event) => (event.preventDefault(), submit()) }, h("p.note", t("policy.hint")), list, h("p.note", t("policy.others")), problem);
  let found;
  try {
    found = await api.get("/api/policy", { graphKey });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    app.toast("error", error.message);
    return;
  }
  add(t("policy.application"), found.application, null);
  add(t("policy.workspace"), found.workspace, mayAdminister(me) ? {} : null);
  if (graphKey) add(t("policy.graph", { name: graph?.name ?? graphKey }), found.graph ?? [], { graphKey });
  for (const [name, classes] of Object.entries(found.nodeTypes)) addType(name, classes);
  const dialog = app.openDialog({
    title: t("policy.title"), content: form, wide: true,
    actions: [h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), save],
  });
  draw();

  function add(title, classes, target, { typeKey = "" } = {}) {
    const boxes = CLASSES.map((value) => h("input", { type: "checkbox", value, checked: classes.includes(value), disabled: !target }));
    const read = () => boxes.filter((box) => box.checked).map((box) => box.value);
    const element = h("fieldset.policy-level", h("legend", title), boxes.map((box) => h("label", box, h("span", t(`policy.class.${box.value}`)))));
    rows.push({ target, typeKey, element, read, seen: read().join() });
    return boxes;
  }

  function addType(name, classes) {
    const { displayName, workspace } = nodeTypes.get(name) ?? {};
    const isOwn = graphKey && workspace === graph?.workspace;
    return add(t("policy.type", { name: displayName || name }), classes, isOwn ? { graphKey, typeKey: name } : null, { typeKey: name });
  }

  function draw() {
    const shown = new Set(rows.map((row) => row.typeKey));
    const free = [...nodeTypes.values()].filter((type) => type.workspace === graph?.workspace && !shown.has(type.type));
    const choose = h("select", h("option", { value: "" }, t("policy.choose_type")),
      free.map((type) => h("option", { value: type.type }, type.displayName || type.type)));
    choose.addEventListener("change", () => {
      const [first] = addType(choose.value, []);
      draw();
      first.focus();
    });
    replace(list, rows.map((row) => row.element), graphKey && free.length ? named(t("policy.add_type"), choose) : "");
  }

  // Sets the levels that were changed; what was set stays when a later one is refused.
  async function submit() {
    save.disabled = true;
    try {
      for (const row of rows.filter((one) => one.target && one.read().join() !== one.seen)) {
        await api.put("/api/policy", { classes: row.read(), ...row.target });
        row.seen = row.read().join();
      }
      dialog.close();
      app.toast("ok", t("policy.saved"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(problem, error.message);
      problem.hidden = false;
    } finally {
      save.disabled = false;
    }
  }
}
