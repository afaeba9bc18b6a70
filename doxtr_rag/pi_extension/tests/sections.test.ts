import { expect, test } from "vitest";
import { chunkPlace, compareText, documentMatcher } from "../sections.js";

test.each([
  ["p/usage/quickstart#defining~2", { document: "usage/quickstart", anchor: "defining" }],
  ["p/c%23/doc#a%7Eb", { document: "c#/doc", anchor: "a~b" }],
  ["p/c%2523#", { document: "c%23", anchor: "" }],
  ["other/doc#a", { document: "other/doc", anchor: "a" }],
])("the place of %s", (id, expected) => expect(chunkPlace(id, "p")).toEqual(expected));

test.each([
  ["Quick", "usage/quickstart", true],
  ["usage/*", "usage/a/b", true],
  ["usage", "guide/install", false],
  ["*start", "usage/quickstart", true],
  ["usage/*", "my/usage/a", false],
  ["?uide", "Guide", true],
  ["a*b*c", "a-b-b-c", true],
  ["a*b*c", "a-b-b", false],
  ["", "anything", true],
])("filter %s on %s: %s", (filter, name, expected) => expect(documentMatcher(filter)(name)).toBe(expected));

test("a glob of many stars takes no exponential time", () => {
  const started = performance.now();
  expect(documentMatcher("a*".repeat(500))("a".repeat(3_000) + "b")).toBe(true);
  expect(documentMatcher(`${"a*".repeat(500)}c`)("a".repeat(3_000))).toBe(false);
  expect(performance.now() - started).toBeLessThan(1_000);
});

test("text is ordered by code point", () => {
  expect(["\u{1f600}", "b", "", "a", "\uff5e", "ab"].sort(compareText)).toEqual([
    "",
    "a",
    "ab",
    "b",
    "\uff5e",
    "\u{1f600}",
  ]);
});
