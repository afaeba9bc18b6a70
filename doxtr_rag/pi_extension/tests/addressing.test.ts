import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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

function replaced(make: () => void): void {
  rmSync(project.path);
  make();
}

function linked(): void {
  const elsewhere = join(project.root, "elsewhere.json");
  writeFileSync(elsewhere, JSON.stringify(project.endpoints), { mode: 0o600 });
  replaced(() => symlinkSync(elsewhere, project.path));
}
