import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { commandOn } from "../launch.js";
import { search } from "../search.js";
import type { Answer } from "../search.js";
import { Project, wireChunk } from "./support/knowledge-base.js";
import { JsonServer } from "./support/json-server.js";

let project: Project;
let folder: string;
let log: string;
beforeEach(() => {
  project = new Project();
  project.served.stores = { shared: [wireChunk("p/guide#install", "Run pip install.")], private: [] };
  folder = join(project.root, "bin");
  log = join(project.root, "started.log");
  mkdirSync(folder);
});
afterEach(() => project.close());

/** Put a `doxtr-rag` on PATH that logs how it was called. */
function command(script: string): void {
  const path = join(folder, "doxtr-rag");
  writeFileSync(path, `#!/bin/sh\necho "$PWD $*" >> "${log}"\n${script}\n`);
  chmodSync(path, 0o755);
}

/** Return a script that publishes a server that already listens. */
function publishing(port: number): string {
  project.publish(port);
  const ready = JSON.stringify(project.endpoints);
  project.publish(null);
  project.write("ready.json", ready);
  return `cp "${project.root}/.doxtr/ready.json" "${project.path}"`;
}

function ask(path = folder, signal?: AbortSignal): Promise<Answer> {
  return search(
    project.client({ PATH: `${path}:/usr/bin:/bin` }),
    project.root,
    { query: "q", topK: 5, documents: "" },
    { mayLaunch: true, signal },
  );
}

const starts = (): string[] => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []);

test("a server that does not run is started in the project, then asked", async () => {
  const server = await project.serve();
  command(publishing(server.port));
  expect((await ask()).hits).toHaveLength(1);
  expect(starts()).toEqual([`${project.root} serve --detach --json`]);
});

test("a server that runs is not started", async () => {
  await project.serve();
  command("exit 1");
  expect((await ask()).hits).toHaveLength(1);
  expect(starts()).toEqual([]);
});

test("a stale endpoints.json starts the server anew", async () => {
  const server = await project.serve();
  command(publishing(server.port));
  project.publish(9);
  expect((await ask()).hits).toHaveLength(1);
});

test("a squatter on the published port is left alone, and the server is started", async () => {
  const server = await project.serve();
  command(publishing(server.port));
  const squatter = await JsonServer.start(() => ({ body: {} }));
  project.publish(squatter.port);
  expect((await ask()).hits).toHaveLength(1);
  expect(JSON.stringify(squatter.asked)).not.toContain(project.token);
  await squatter.stop();
});

test("searches at the same time start it once each", async () => {
  const server = await project.serve();
  const client = project.client({ PATH: `${folder}:/usr/bin:/bin` });
  command(`sleep 0.2; ${publishing(server.port)}`);
  const answers = await Promise.all(
    [1, 2, 3].map(() =>
      search(client, project.root, { query: "q", topK: 5, documents: "" }, { mayLaunch: true, signal: undefined }),
    ),
  );
  expect(answers.map(({ hits }) => hits.length)).toEqual([1, 1, 1]);
  expect(starts()).toHaveLength(1);
});

test("a start that fails is told once, in the command's words", async () => {
  project.publish(null);
  command(`echo '{"ok": false, "error": "port_taken", "message": "no free port: end another server"}'; exit 1`);
  await expect(ask()).rejects.toThrow(
    `The knowledge-base server of ${project.root} does not run and it could not be started (no free port: end another server): run doxtr-rag serve --detach there.`,
  );
  expect(starts()).toHaveLength(1);
});

test("no command on PATH is told", async () => {
  project.publish(null);
  await expect(ask("/nowhere")).rejects.toThrow("doxtr-rag is not on PATH, so it could not be started");
});

test("a command that leaves a child with its output open is not waited for", async () => {
  const server = await project.serve();
  command(`${publishing(server.port)}\nsleep 5 &`);
  const started = performance.now();
  expect((await ask()).hits).toHaveLength(1);
  expect(performance.now() - started).toBeLessThan(3_000);
});

test("an abort does not wait for the start", async () => {
  project.publish(null);
  command("exec sleep 3");
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 50);
  const started = performance.now();
  await expect(ask(folder, controller.signal)).rejects.toMatchObject({ kind: "aborted" });
  expect(performance.now() - started).toBeLessThan(1_000);
});

test("the command is taken from fixed folders only, and only when it can be run", () => {
  command("exit 0");
  expect(commandOn(["", ".", "bin", folder])).toBe(join(folder, "doxtr-rag"));
  expect(commandOn([".", "bin", ""])).toBeUndefined();
  chmodSync(join(folder, "doxtr-rag"), 0o644);
  expect(commandOn([folder])).toBeUndefined();
});

test("without a knowledge base nothing is started", async () => {
  command("exit 0");
  await expect(
    search(
      project.client({ PATH: folder }),
      "/",
      { query: "q", topK: 5, documents: "" },
      { mayLaunch: true, signal: undefined },
    ),
  ).rejects.toThrow("No knowledge base was found");
  expect(starts()).toEqual([]);
});
