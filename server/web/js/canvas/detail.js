// How large names, and the lines of what nodes do, are drawn at a zoom, and from which zoom on they can be read.
//
// Decision: a graph opens whole where its names can be read then, otherwise at its start (canvas/index.js, `begin`).
// A reader asks first where the flow begins and what its steps are called; blocks without names answer neither. Where the
// rest is, the overview in the corner shows, and one key shows all of it. Names grow in steps as the zoom falls, and only
// the step is a style of the stage: a size that followed every zoom would have all nodes laid out in every frame.

import { shapeOf } from "./model.js";

export const NAME_PX = 9; // the least size of a name on the screen
const STEPS = [{ name: 13, effect: 11 }, ...[16, 20, 26].map((size) => ({ name: size, effect: size }))]; // of names and lines, in canvas points
export const SIZES = STEPS.map(({ name }) => name);
const LARGEST_OF_BAR = 20; // as much as its height has room for

export function createDetail(stage, { state }) {
  let least = NAME_PX / SIZES.at(-1);
  let shown = "";

  // Takes the nodes of the sheet.
  function set(nodes) {
    const types = state().nodeTypes;
    const hasBars = nodes.some((node) => shapeOf(node, types) === "bar");
    least = NAME_PX / (hasBars ? LARGEST_OF_BAR : SIZES.at(-1));
  }

  // Returns the sizes of names and lines where they are others than before, in canvas points.
  function look(k) {
    const step = STEPS.find(({ effect }) => effect * k >= NAME_PX) ?? STEPS.at(-1);
    const detail = k < least ? "far" : step === STEPS[0] ? "near" : "mid";
    if (shown === `${detail} ${step.name}`) return null;
    shown = `${detail} ${step.name}`;
    stage.dataset.detail = detail;
    stage.classList.toggle("coarse", step === STEPS.at(-1)); // too far away to grasp handles
    stage.style.setProperty("--name", `${step.name}px`);
    stage.style.setProperty("--does", `${step.effect}px`);
    return step;
  }

  return { set, look, get least() { return least; } };
}
