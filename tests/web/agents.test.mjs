// The documents of agents as the page shows them, and who may answer a new conversation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { agentsFor, chosenAgent } from "../../server/web/js/chat/agent.js";
import { idOf, placed, placesOf } from "../../server/web/js/agents/places.js";
import { blankOf } from "../../server/web/js/agents/trial.js";

const DOCUMENTS = JSON.parse(process.env.DOCUMENTS); // whole documents, as the service takes them

function paths(value, path = []) {
  const own = [[path.join("."), value]];
  return value && typeof value === "object" ? [...own, ...Object.entries(value).flatMap(([name, one]) => paths(one, [...path, name]))] : own;
}

test("every value of a document is found where it stands, however it is written", () => {
  for (const document of DOCUMENTS) {
    for (const text of [JSON.stringify(document), JSON.stringify(document, null, 2), JSON.stringify(document, null, "\t").replaceAll(":", " :\n")]) {
      if (text.includes(" :\n") && JSON.stringify(document).includes(":/")) continue; // not within texts
      const places = placesOf(text);
      const wanted = paths(document);
      assert.equal(places.size, new Set(wanted.map(([path]) => path)).size);
      for (const [path, value] of wanted) assert.deepEqual(JSON.parse(text.slice(...places.get(path))), value, path);
    }
    assert.equal(idOf(JSON.stringify(document)), document.agent.id);
  }
});

test("a mistake is shown at its place, at what is nearest around it, or without one", () => {
  const text = JSON.stringify({ agent: { id: "a", "x.y": [1, { b: 2 }] } }, null, 2);
  const at = (where, given = text) => placed(given, [{ where }]).map(({ place, line }) => [place && given.slice(...place), line])[0];
  assert.deepEqual([at("agent.id"), at("agent.x.y.1.b"), at("agent.x.y.0")], [['"a"', 3], ["2", 7], ["1", 5]]);
  assert.deepEqual([at("agent.name"), at("tools.a"), at("")], [["{", 2], [null, 0], [null, 0]]);
  for (let end = 0; end < text.length; end += 1) assert.doesNotThrow(() => placed(text.slice(0, end), [{ where: "agent.id" }]));
  assert.deepEqual(at("agent.id", `${text.slice(0, 30)}]]]`), ['"a"', 3]);
  for (const hostile of ["[".repeat(50_000), "{".repeat(9), '{"a":', '{"__proto__":1}', "\\", '"\u0000']) assert.doesNotThrow(() => placed(hostile, [{ where: "a" }]));
});

test("the id of a document in YAML is read too", () => {
  assert.equal(idOf('version: "2.0"\nagent:\n  name: Help # id: no\n  id: "help-desk"\n'), "help-desk");
  assert.deepEqual([idOf("agent: x"), idOf("id: y\n"), idOf("")], ["", "", ""]);
});

test("arguments begin as their schema has them", () => {
  const schema = { type: "object", properties: { n: { type: ["integer", "null"] }, list: { type: "array" }, one: { enum: ["a", "b"] }, deep: { properties: { d: { default: 7 } } }, text: {} } };
  assert.deepEqual(blankOf(schema), { n: 0, list: [], one: "a", deep: { d: 7 }, text: "" });
});

test("an agent may be chosen where it runs, chats, and reads the graph or none", () => {
  const agents = [{ id: "a", state: "running", channels: ["chat"], graphs: ["g"] }, { id: "b", state: "running", channels: ["chat"], graphs: [] }, { id: "c", state: "stopped", graphs: [] }, { id: "d", state: "running", channels: ["voice"] }];
  const ids = (key) => agentsFor(agents, key).map((one) => one.id).join();
  assert.deepEqual([ids("g"), ids("other"), ids(null)], ["a,b", "b", "b"]);
  assert.equal(chosenAgent({ agents, agentChosen: "a", graphKey: "other" }), null);
  assert.deepEqual(agentsFor(null, "g"), []);
});
