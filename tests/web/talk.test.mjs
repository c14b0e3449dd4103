// Which agents may be talked with from the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { talkersOf } from "../../server/web/js/calls/talk.js";

test("only running agents of the Realtime engine that answer by voice are offered", () => {
  const agent = { state: "running", channels: ["chat", "voice"], engine: "realtime" };
  const others = [{ ...agent, state: "stopped" }, { ...agent, channels: ["chat"] }, { ...agent, engine: "text" }];
  assert.deepEqual(talkersOf([agent, ...others]), [agent]);
  assert.deepEqual(talkersOf(undefined), []);
});
