import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { knowledgeBaseOf } from "../addressing.js";
import { readSettings } from "../settings.js";
import { Project } from "./support/knowledge-base.js";

let project: Project;
beforeEach(() => (project = new Project()));
afterEach(() => project.close());

const settings = readSettings({});

test("the nearest knowledge base above a folder is found", () => {
  project.publish(8789);
  const below = join(project.root, "a", "b");
  mkdirSync(below, { recursive: true });
  const base = knowledgeBaseOf(below, settings);
  expect(base).toMatchObject({ path: project.path, root: project.root, token: project.token });
  expect(base.endpoints.stores.map(({ name }) => name)).toEqual(["shared", "private"]);
});

test("a variable names another one", () => {
  project.publish(8789);
  expect(knowledgeBaseOf(tmpdir(), readSettings({ DOXTR_RAG_ENDPOINTS: project.path })).root).toBe(project.root);
  expect(knowledgeBaseOf(project.root, readSettings({ DOXTR_RAG_ENDPOINTS: ".doxtr/endpoints.json" })).root).toBe(
    project.root,
  );
});

test("no knowledge base says what to do", () => {
  const empty = mkdtempSync(join(tmpdir(), "none-"));
  expect(() => knowledgeBaseOf(empty, settings)).toThrow(
    /No knowledge base was found at or above .*: build the documentation/u,
  );
  rmSync(empty, { recursive: true });
});

test("without a server there is no token", () => {
  project.publish(null);
  expect(knowledgeBaseOf(project.root, settings).token).toBeNull();
});

test("endpoints that were chosen may lie apart from the lock", () => {
  project.publish(8789);
  project.change({ lock: "1:2" });
  const chosen = readSettings({ DOXTR_RAG_ENDPOINTS: project.path });
  expect(knowledgeBaseOf("/", chosen).token).toBe(project.token);
  project.write("server.lock", "");
  expect(knowledgeBaseOf("/", chosen).token).toBeNull();
});

test("a server that says which lock it holds is asked while that lock lies there", () => {
  project.publish(8789);
  project.write("server.lock", "");
  project.change({ lock: lockIn(project.root) });
  expect(knowledgeBaseOf(project.root, settings).token).toBe(project.token);
  project.change({ lock: "1:2" });
  expect(knowledgeBaseOf(project.root, settings).token).toBeNull();
  project.change({ lock: lockIn(project.root) });
  rmSync(join(project.root, ".doxtr", "server.lock"));
  expect(knowledgeBaseOf(project.root, settings).token).toBeNull();
});

test("a copied folder does not lead to the server of the original", () => {
  project.publish(8789);
  project.write("server.lock", "");
  project.change({ lock: lockIn(project.root) });
  const copy = mkdtempSync(join(tmpdir(), "copy-"));
  cpSync(project.root, copy, { recursive: true, preserveTimestamps: true });
  const inCopy = join(copy, ".doxtr", "endpoints.json");
  expect(knowledgeBaseOf(copy, settings)).toMatchObject({ root: copy, token: null });
  expect(knowledgeBaseOf("/", readSettings({ DOXTR_RAG_ENDPOINTS: inCopy })).token).toBeNull();
  expect(knowledgeBaseOf(copy, readSettings({ DOXTR_RAG_ENDPOINTS: project.path })).token).toBe(project.token);
  rmSync(copy, { recursive: true });
});

test("a token that was taken away is none", () => {
  project.publish(8789);
  rmSync(join(project.root, ".doxtr", "server.token"));
  expect(knowledgeBaseOf(project.root, settings).token).toBeNull();
});

test.each([
  ["readable by others", (): void => chmodSync(project.path, 0o644), "can be read or written by other users"],
  ["writable by its group", (): void => chmodSync(project.path, 0o620), "can be read or written by other users"],
  ["a link", (): void => linked(), "cannot be opened"],
  ["a folder", (): void => replaced(() => mkdirSync(project.path, 0o700)), "is no regular file"],
  ["no JSON", (): void => project.write("endpoints.json", "{"), "expected an object"],
  ["too large", (): void => project.write("endpoints.json", " ".repeat(2_000_000)), "is too large"],
  ["nested too deep", (): void => project.write("endpoints.json", nested(100_000)), "expected an object"],
  [
    "with a field nested too deep",
    (): void => project.change({ later: JSON.parse(nested(50)) }),
    "later: expected at most 20 levels",
  ],
  [
    "with a control character in a later field",
    (): void => project.change({ later: { a: ["\u001b[2J"] } }),
    "later.a.0: expected text",
  ],
  [
    "with half a pair in a field's name",
    (): void => project.change({ later: { "\ud800": 1 } }),
    "later: expected field names",
  ],
  ["of a later version", (): void => project.change({ version: 2 }), "version: expected 1"],
  [
    "pointing elsewhere",
    (): void => project.change({ search_url: "http://192.0.2.1:80" }),
    "search_url: expected an http address on loopback",
  ],
  [
    "with a token file elsewhere",
    (): void => project.change({ token_file: "../../etc/passwd" }),
    "token_file: expected a file name",
  ],
  [
    "with an open token file",
    (): void => project.write("server.token", project.token, 0o640),
    "server.token can be read or written by other users",
  ],
  ["with a token that is none", (): void => project.write("server.token", "root:x:0:0"), "server.token holds no token"],
])("endpoints.json %s is refused", (_, spoil, why) => {
  project.publish(8789);
  spoil();
  expect(() => knowledgeBaseOf(project.root, settings)).toThrow(why);
  expect(() => knowledgeBaseOf(project.root, settings)).toThrow("run doxtr-rag serve");
});

test.runIf(process.getuid?.() === 0)("endpoints.json of another user is refused", async () => {
  const { chownSync } = await import("node:fs");
  project.publish(8789);
  chownSync(project.path, 12_345, 12_345);
  expect(() => knowledgeBaseOf(project.root, settings)).toThrow("belongs to another user");
});

function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels);
}

function lockIn(root: string): string {
  const { dev, ino } = statSync(join(root, ".doxtr", "server.lock"), { bigint: true });
  return `${dev}:${ino}`;
}

function replaced(make: () => void): void {
  rmSync(project.path);
  make();
}

function linked(): void {
  const elsewhere = join(project.root, "elsewhere.json");
  writeFileSync(elsewhere, JSON.stringify(project.endpoints), { mode: 0o600 });
  replaced(() => symlinkSync(elsewhere, project.path));
}

test("an agent that gets the shared pages alone is led to no private store", () => {
  project.publish(8789);
  const store = project.endpoints["shared"] as object;
  project.change({
    mounts: [
      { ...store, name: "team", path: "x", scope: "SHARED_ORG" },
      { ...store, name: "mine", path: "y", scope: "LOCAL_PRIVATE" },
    ],
  });
  const names = (scope: string): string[] =>
    knowledgeBaseOf(project.root, readSettings({ DOXTR_RAG_AGENT_SCOPE: scope })).endpoints.stores.map(
      ({ name }) => name,
    );
  expect(names("shared")).toEqual(["shared", "team"]);
  expect(names("all")).toEqual(["shared", "private", "team", "mine"]);
});
