// Code before and after as rows, and in words to be coloured.

import assert from "node:assert/strict";
import { test } from "node:test";

import { languageOf, linesOfWords } from "../../server/web/js/highlight.js";
import { csvOf } from "../../server/web/js/review/audit-table.js";
import { codesOf, differenceOf, firstDifference, foldsOf, pairsOf, wholeRows } from "../../server/web/js/review/codes.js";

const BEFORE = Array.from({ length: 60 }, (_, i) => `line ${i + 1}`).join("\n");
const AFTER = BEFORE.replace("line 50", "row 50\nrow 50b");
const DIFF = "--- a\n+++ b\n@@ -49,3 +49,4 @@\n line 49\n-line 50\n+row 50\n+row 50b\n line 51";
const textOf = (rows, side, text) => rows.filter((row) => row[side] !== null).map((row) => text.split("\n")[row[side] - 1]).join("\n");

test("the rows hold both texts whole, whatever the diff leaves out", () => {
  const rows = wholeRows({ before: BEFORE, after: AFTER, diff: DIFF });
  assert.deepEqual([textOf(rows, "before", BEFORE), textOf(rows, "after", AFTER)], [BEFORE, AFTER]);
  assert.deepEqual(rows.filter((row) => row.kind !== "same"), [
    { kind: "removed", before: 50, after: null }, { kind: "added", before: null, after: 50 }, { kind: "added", before: null, after: 51 },
  ]);
  assert.deepEqual(rows.at(-1), { kind: "same", before: 60, after: 61 });
});

test("new code is all added, and code that goes all removed", () => {
  assert.deepEqual(wholeRows({ before: "", after: "a\nb", diff: null }).map((row) => row.kind), ["added", "added"]);
  assert.deepEqual(wholeRows({ before: "a\nb", after: "", diff: "--- a\n+++ b\n@@ -1,2 +0,0 @@\n-a\n-b" }).map((row) => row.kind), ["removed", "removed"]);
});

test("what takes a line's place stands beside it, and long unchanged stretches are folded", () => {
  const pairs = pairsOf(wholeRows({ before: BEFORE, after: AFTER, diff: DIFF }));
  assert.deepEqual(pairs.filter(([one, other]) => one !== other).map(([one, other]) => [one?.before ?? null, other?.after ?? null]), [[50, 50], [null, 51]]);
  const parts = foldsOf(pairs, ([one, other]) => one === other);
  assert.deepEqual(parts.map((part) => [part.isFolded, part.items.length]), [[true, 43], [false, 18]]);
  assert.deepEqual(parts.flatMap((part) => part.items), pairs);
});

test("the part of a line that differs is found, and no line that is another", () => {
  assert.deepEqual(differenceOf("limit = 10;", "limit = 20;"), { from: 8, toBefore: 9, toAfter: 9 });
  assert.deepEqual(differenceOf("a(b)", "a(b, b)"), { from: 3, toBefore: 3, toAfter: 6 });
  assert.equal(differenceOf("return rows;", "const x = 1;"), null);
  assert.equal(firstDifference("a\nb\nc", "a\nb\nd"), 2);
  assert.equal(firstDifference("a", "a"), 0);
});

test("codes of a preview are those that change and those of new nodes", () => {
  const preview = { nodesChanged: [{ key: "n", name: "N", fields: [{ path: ["data", "x"], after: 1 }, { path: ["process"], after: "a", diff: "d" }] }], nodesAdded: [{ _key: "m", process: "b" }, { _key: "o" }] };
  assert.deepEqual(codesOf(preview).map(({ key, before, after }) => [key, before, after]), [["n", "", "a"], ["m", "", "b"]]);
});

const CASES = {
  javascript: "const a = `x ${'y'}\nz`; // done\nif (a > 10) return \"b\"; /* c\nd */ 'open",
  json: "{\"a\": [1, true, \"x\"]}",
  python: "def f(x):  # why\n  return \"\"\"a\nb\"\"\" if x is None else 1_000",
  sql: "SELECT name FROM t -- all\nWHERE n > 3 AND s = 'it'",
  "": "no language at all\n\n",
};

test("the words of any code are the code, and of the kinds that they are", () => {
  for (const [language, text] of Object.entries(CASES)) {
    const lines = linesOfWords(text, language);
    assert.equal(lines.map((words) => words.map((word) => word.text).join("")).join("\n"), text);
    if (language) assert.ok(lines.flat().some((word) => word.kind === "keyword"), language);
  }
  const kinds = (text, language) => linesOfWords(text, language).map((words) => words.filter((word) => word.kind).map((word) => `${word.kind} ${word.text}`));
  assert.deepEqual(kinds("a /* b\nc */ 1", "javascript"), [["comment /* b"], ["comment c */", "number 1"]]);
  assert.deepEqual(kinds("SELECT 'a' -- b", "sql"), [["keyword SELECT", "string 'a'", "comment -- b"]]);
});

test("a language is known by its name or by the text", () => {
  assert.deepEqual(["{\"a\": 1}", "select a from b", "return 1;"].map((text) => languageOf(text)), ["json", "sql", "javascript"]);
  assert.deepEqual([languageOf("x = 1", "python3"), languageOf("Some text.\nMore.", "")], ["python", ""]);
});

test("entries of the audit log are a table that every program reads, and no formula", () => {
  const rows = [{ sequence: 1, what: 'Rename "a", b', feedback: "=1+1" }, { sequence: 2, what: "two\nlines", feedback: undefined }];
  assert.equal(csvOf(rows), 'sequence,what,feedback\r\n1,"Rename ""a"", b",\'=1+1\r\n2,"two\nlines",\r\n');
  assert.equal(csvOf([]), "\r\n");
});
