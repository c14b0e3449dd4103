// Sound of calls in the browser, and what is known of a call as it goes on.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { createFrames, createPlayQueue, createResampler, FRAME_BYTES } from "../../server/web/js/calls/frames.js";
import { countsOf, recordingLines, transferLines } from "../../server/web/js/calls/facts.js";
import { isLive, knownOf, withNews } from "../../server/web/js/calls/known.js";
import { decode, encode } from "../../server/web/js/calls/mu-law.js";

const { encoded, decoded } = JSON.parse(readFileSync(process.env.TABLE)); // [sample, byte] of every step, and the sample of each byte

const tone = (hz, rate, seconds = 0.5) => Float32Array.from({ length: rate * seconds }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hz * i) / rate));
const loudness = (samples) => Math.sqrt(samples.reduce((sum, one) => sum + one * one, 0) / samples.length);

// What a resampler makes of sound that comes in pieces as a sound card has them.
function resampled(samples, from, to, piece = 128) {
  const push = createResampler(from, to);
  const made = [];
  for (let at = 0; at < samples.length; at += piece) made.push(...push(samples.slice(at, at + piece)));
  return made;
}

test("μ-law is that of the telephone, in both directions", () => {
  for (const [sample, byte] of encoded) assert.equal(encode(sample), byte, String(sample));
  decoded.forEach((sample, byte) => assert.equal(decode(byte), sample, String(byte)));
});

test("sound keeps its loudness, length and pitch at another rate, and what is too high is left out", () => {
  for (const rate of [48_000, 44_100, 16_000, 8000]) {
    for (const hz of [300, 1000, 3000]) {
      const down = resampled(tone(hz, rate), rate, 8000);
      assert.ok(Math.abs(down.length - 4000) <= 20, `${rate} ${down.length}`);
      const back = resampled(Float32Array.from(down), 8000, rate, 32);
      for (const [made, its] of [[down, 8000], [back, rate]]) {
        const middle = made.slice(its / 10, -its / 10);
        assert.ok(Math.abs(loudness(middle) / loudness(tone(hz, rate)) - 1) < 0.08, `${rate} ${hz} ${loudness(middle)}`);
        const crossings = middle.filter((one, i) => i && one >= 0 !== middle[i - 1] >= 0).length;
        assert.ok(Math.abs((crossings * its) / middle.length / 2 - hz) < 12, `${rate} ${hz} ${crossings}`);
      }
    }
  }
  assert.ok(loudness(resampled(tone(6000, 48_000), 48_000, 8000).slice(500, -500)) < 0.01);
});

test("frames are whole, whatever the pieces", () => {
  const frames = [];
  const add = createFrames((frame) => frames.push(frame));
  for (let i = 0; i < 3 * FRAME_BYTES + 7; i += 1) add(i % 251);
  assert.deepEqual(frames.map((frame) => frame.length), [160, 160, 160]);
  assert.deepEqual(frames.flatMap((frame) => [...frame]), Array.from({ length: 480 }, (_, i) => i % 251));
});

test("a mark comes back when the sound before it was played, once, and at once when all is thrown away", () => {
  const queue = createPlayQueue();
  const sound = (n, byte) => new Uint8Array(n).fill(byte);
  queue.add(sound(50, 0x00));
  queue.mark("0.1");
  queue.add(sound(30, 0x80));
  queue.mark("0.2");
  queue.mark("0.3");
  assert.deepEqual([queue.take(49).marks, queue.isEmpty], [[], false]);
  const { samples, marks } = queue.take(2);
  assert.deepEqual([[...samples], marks], [[decode(0x00) / 32_768, decode(0x80) / 32_768], ["0.1"]]);
  assert.deepEqual(queue.take(28).marks, []);
  const last = queue.take(5);
  assert.deepEqual([[...last.samples], last.marks, queue.isEmpty], [[decode(0x80) / 32_768, 0, 0, 0, 0], ["0.2", "0.3"], true]);
  queue.mark("0.4");
  assert.deepEqual(queue.take(1).marks, ["0.4"]);
  queue.add(sound(100, 1));
  queue.mark("1.1");
  queue.mark("1.2");
  queue.take(60);
  assert.deepEqual([queue.clear(), queue.isEmpty, queue.clear(), [...queue.take(2).samples]], [["1.1", "1.2"], true, [], [0, 0]]);
  queue.add(sound(3, 0x00));
  assert.deepEqual([...queue.take(3).samples], Array(3).fill(decode(0x00) / 32_768));
});

test("what is kept to be played has an end", () => {
  const queue = createPlayQueue();
  for (let i = 0; i < 700; i += 1) queue.add(new Uint8Array(8000));
  let seconds = 0;
  while (!queue.isEmpty) {
    queue.take(8000);
    seconds += 1;
  }
  assert.equal(seconds, 600);
});

test("what comes of a call makes the same as its record, and adds the words that nobody heard", () => {
  const events = [
    { type: "call:state", _id: 4, status: "active", agentId: "desk" },
    { type: "call:said", itemId: "a", role: "assistant", text: "Good", final: false },
    { type: "call:said", itemId: "u", role: "user", text: "", final: false },
    { type: "call:said", itemId: "a", role: "assistant", text: "Good day, I am the desk", final: false },
    { type: "call:tool", toolCallId: "t", name: "search_nodes", phase: "started" },
    { type: "call:said", itemId: "a", role: "assistant", text: "Good day,", final: true, interrupted: true, heardMs: 700 },
    { type: "call:said", itemId: "u", role: "user", text: "Who is it?", final: true },
    { type: "call:tool", toolCallId: "t", name: "search_nodes", phase: "finished", ok: true, ms: 12 },
    { type: "call:sources", turn: 1, graph: "g", nodes: ["n1", "n2"] },
    { type: "call:sources", turn: 2, graph: "g", nodes: ["n2", "n3"] },
    { type: "call:proposal", approvalId: "p", spokenCode: "amber river 42" },
    { type: "call:proposal", approvalId: "p", spokenCode: "amber river 42" },
    { type: "call:unknown" },
    { type: "call:ended", outcome: "answered", reason: "caller_hung_up" },
  ];
  const live = events.reduce(withNews, knownOf({ callId: "c", status: "ringing" }));
  const document = {
    callId: "c", status: "ended", agentId: "desk", outcome: "answered", endReason: "caller_hung_up",
    transcript: [{ itemId: "a", role: "assistant", content: "Good day,", interrupted: true, heardMs: 700 }, { itemId: "u", role: "user", content: "Who is it?" }],
    tools: [{ toolCallId: "t", name: "search_nodes", ok: true, ms: 12 }], sources: [{ turn: 1, graph: "g", nodes: ["n1", "n2"] }, { turn: 2, graph: "g", nodes: ["n2", "n3"] }], approvals: [{ approvalId: "p" }],
  };
  const stored = knownOf(document, live);
  for (const part of ["said", "graph", "nodes", "lit", "approvals"]) assert.deepEqual(live[part], stored[part], part);
  assert.deepEqual(stored.said[0], { itemId: "a", role: "assistant", text: "Good day,", isFinal: true, isInterrupted: true, unheard: "I am the desk" });
  assert.deepEqual([live.call.status, live.call.endReason, isLive(live.call), isLive({ status: "ending" })], ["ended", "caller_hung_up", false, true]);
  assert.deepEqual([live.tools[0].isRunning, live.tools[0].ms], [false, 12]);
  assert.equal(knownOf(document).said[0].unheard, "");
  const behind = knownOf({ ...document, transcript: document.transcript.slice(0, 1), tools: [], approvals: [], sources: [] }, live);
  assert.deepEqual([behind.said, behind.nodes, behind.approvals, behind.tools.length], [live.said, live.nodes, ["p"], 1]);
  const forgotten = knownOf({ callId: "c", status: "ended", forgottenTime: 9 }, live);
  assert.deepEqual([forgotten.said, forgotten.nodes, forgotten.approvals, forgotten.tools], [[], [], [], []]);
  const told = knownOf({ ...document, transcript: [{ ...document.transcript[0], unheard: " I am" }] }, live);
  assert.equal(told.said[0].unheard, "I am");
});

test("calls are counted by whether they go on, had an outcome, or went wrong", () => {
  const ended = (endReason, outcome = null) => ({ status: "ended", endReason, outcome });
  const calls = [{ status: "ringing" }, { status: "active" }, ended("caller_hung_up", "ordered"), ended("line_lost"), ended("lost", "ordered"), ended("blocked"), ended("transferred")];
  assert.deepEqual(countsOf(calls), { now: 2, outcome: 2, wrong: 2 });
  assert.deepEqual(countsOf([]), { now: 0, outcome: 0, wrong: 0 });
});

test("a call names each attempt to transfer it and each recording, and how it ended", () => {
  const app = { t: (key) => key.split(".").at(-1) };
  const transfers = [{ destination: "sales", status: "busy" }, { destination: "desk", status: "completed", seconds: 65 }, { destination: "desk", answeredTime: 1 }, { destination: "boss" }];
  assert.deepEqual(transferLines(app, { transfers }), ["sales: busy", "desk: completed · 1:05", "desk: answered", "boss: open"]);
  assert.deepEqual(recordingLines(app, { recordings: [{ sid: "RE1", status: "completed", seconds: 5 }] }), ["RE1: completed · 0:05"]);
  assert.deepEqual([...transferLines(app, {}), ...recordingLines(app, {})], []);
});
