import { expect, test } from "vitest";
import { clean } from "../display.js";
import { scrub } from "../scrub.js";

const LENGTH = 100_000;

test.each([
  "password=",
  "a",
  "eyJ",
  "token: ",
  "http://a:",
  "-----BEGIN PRIVATE KEY-----\n",
  `${"A".repeat(64)}\n`,
  "?key=",
  "sk-",
  'secret:"a',
  "://",
  "Authorization: Bearer ",
  "=",
  "my_",
  "\u001b]",
  "\u001b[0;",
  "[scrubbed:secret]",
  "x.y@",
  " \t",
])("many times %j takes linear time", (unit) => {
  const text = unit.repeat(Math.ceil(LENGTH / unit.length));
  const started = performance.now();
  clean(text);
  expect(performance.now() - started).toBeLessThan(2_000);
});

test("a secret that is cut by an escape sequence is found", () => {
  const token = ["gh", "p_", "a1B2".repeat(9)].join("");
  expect(clean(`${token.slice(0, 9)}\u001b[0m${token.slice(9)}`)).toBe("[scrubbed:github_token]");
});

test("text without secrets is the same text", () => {
  const text = "The `password` option takes a string.\n\n    client.login(password=getpass())\n";
  expect(scrub(text)).toBe(text);
});
