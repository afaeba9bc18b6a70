import { expect, test } from "vitest";
import { isDisabled, readSettings } from "../settings.js";

test.each([
  ["1", true],
  ["true", true],
  ["YES", true],
  ["on", true],
  ["0", false],
  ["", false],
  [undefined, false],
])("DOXTR_RAG_PI_DISABLE=%s: %s", (value, expected) => {
  expect(isDisabled({ DOXTR_RAG_PI_DISABLE: value })).toBe(expected);
});

test("headers are read, names without letter case", () => {
  const { sharedHeaders } = readSettings({
    DOXTR_RAG_SHARED_STORE_HEADERS: "X-Team = docs ; Authorization=Bearer a=b;",
  });
  expect([...sharedHeaders]).toEqual([
    ["x-team", "docs"],
    ["authorization", "Bearer a=b"],
  ]);
});

test("a wrong header is said without its value", () => {
  expect(() => readSettings({ DOXTR_RAG_LOCAL_STORE_HEADERS: "hidden value" })).toThrow(
    "DOXTR_RAG_LOCAL_STORE_HEADERS is not of the form k=v;k=v",
  );
  expect(() => readSettings({ DOXTR_RAG_LOCAL_STORE_HEADERS: "hidden value" })).not.toThrow("hidden");
});

test("an embedding address without a path gets one", () => {
  expect(readSettings({ DOXTR_RAG_EMBED_URL: "http://127.0.0.1:8519" }).embedUrl?.href).toBe(
    "http://127.0.0.1:8519/embed",
  );
  expect(readSettings({ DOXTR_RAG_EMBED_URL: "http://127.0.0.1:8519/v1/embeddings" }).embedUrl?.pathname).toBe(
    "/v1/embeddings",
  );
});

test.each(["ftp://x/", "nonsense", "http://user:pw@host/"])("%s is no embedding address", (text) => {
  expect(() => readSettings({ DOXTR_RAG_EMBED_URL: text })).toThrow(
    "DOXTR_RAG_EMBED_URL is not an http or https address",
  );
});

test.each([
  [undefined, true],
  ["", true],
  ["all", true],
  [" Shared ", false],
])("DOXTR_RAG_AGENT_SCOPE=%s lets private pages through: %s", (value, expected) => {
  expect(readSettings({ DOXTR_RAG_AGENT_SCOPE: value }).hasPrivatePages).toBe(expected);
});

test.each(["private", "share", "1"])("%s is no scope, and nothing is asked with it", (word) => {
  expect(() => readSettings({ DOXTR_RAG_AGENT_SCOPE: word })).toThrow(
    "DOXTR_RAG_AGENT_SCOPE is not one of shared, all",
  );
});
