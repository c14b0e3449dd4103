// A replacement over many graphs: proposed for each, decided for some or all, undone in one step.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

// Returns the form; what was proposed takes its place, with a box for each graph.
export function createCodemod(app, { value, kind }) {
  const { api, t, toast } = app;
  const root = h("section.codemod");
  const field = h("input", { required: true, maxlength: 500, autocomplete: "off", "aria-label": t("everywhere.new_value"), placeholder: t("everywhere.new_value") });

  async function run(work) {
    root.inert = true;
    try {
      draw(await work());
    } catch (error) {
      toast("error", error.message);
    }
    root.inert = false;
  }

  function draw({ codemodId, parts }) {
    const path = `/api/codemods/${encodeURIComponent(codemodId)}`;
    const boxes = new Map();
    const row = ({ graphKey, approval, message }) => {
      const isOpen = approval?.status === "pending" && !message;
      const box = h("input", { type: "checkbox", checked: isOpen, disabled: !isOpen });
      if (isOpen) boxes.set(graphKey, box);
      const changed = approval?.preview?.nodesChanged ?? [];
      const fields = changed.flatMap((node) => (node.fields ?? []).map((one) => h("li", h("code", `${node.key}.${one.path.join(".")}`), " ", h("del", shown(one.before)), " → ", h("ins", shown(one.after)))));
      return h("li", h("label", box, h("b", graphKey), h("span.tag", approval?.undoes ? t("everywhere.undone") : t(`everywhere.status_${approval?.status ?? "failed"}`)), message ? h("span.error", message) : null),
        fields.length ? h("details", h("summary", t("everywhere.preview", { n: changed.length })), h("ul", fields)) : null);
    };
    const chosen = () => [...boxes].filter(([, box]) => box.checked).map(([graph]) => graph);
    const decide = (verdict) => () => chosen().length && run(() => api.post(`${path}/decision`, { verdict, graphs: chosen() }));
    const list = h("ul.everywhere-list", parts.map(row));
    const isApplied = parts.some((part) => part.approval?.status === "applied" && !part.approval.undoneBy && !part.approval.undoes);
    replace(root, h("h3", t("everywhere.parts", { n: parts.length })), list, h("div.dialog-actions",
      boxes.size ? h("button", { type: "button", onclick: decide("reject") }, t("everywhere.reject")) : null,
      boxes.size ? h("button.primary", { type: "button", onclick: decide("approve") }, icon("check"), t("everywhere.approve")) : null,
      isApplied ? h("button", { type: "button", onclick: () => run(() => api.post(`${path}/undo`, {})) }, t("everywhere.undo_all")) : null));
  }

  replace(root, h("form.everywhere-form", { onsubmit: (event) => {
    event.preventDefault();
    run(() => api.post("/api/codemods", { old: value, new: field.value.trim(), ...(kind ? { kind } : {}) }));
  } }, field, h("button", { type: "submit" }, t("everywhere.replace"))));
  return root;
}

function shown(value) {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
