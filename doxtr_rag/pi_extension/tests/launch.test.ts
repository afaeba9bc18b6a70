import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { outlineTool } from "../document-tools.js";
import { commandOn } from "../launch.js";
import { search } from "../search.js";
import type { Answer, Phase } from "../search.js";
import { FakePi } from "./support/pi.js";
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

function ask(path = folder, signal?: AbortSignal, onPhase?: (phase: Phase) => void): Promise<Answer> {
  return search(
    project.client({ PATH: `${path}:/usr/bin:/bin` }),
    project.root,
    { query: "q", topK: 5, documents: "" },
    { mayLaunch: true, signal, ...(onPhase ? { onPhase } : {}) },
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
    `The knowledge-base server of ${project.root} does not run and could not be started (no free port: end another server).`,
  );
  expect(starts()).toHaveLength(1);
});

test("no command on PATH is told", async () => {
  project.publish(null);
  await expect(ask("/nowhere")).rejects.toThrow(
    `The knowledge-base server of ${project.root} does not run and could not be started (doxtr-rag is not on PATH): run doxtr-rag serve --detach there.`,
  );
});

test("a command that says nothing is told with its status", async () => {
  project.publish(null);
  command("exit 3");
  await expect(ask()).rejects.toThrow(
    "could not be started (doxtr-rag serve --detach ended with status 3): run doxtr-rag",
  );
});

test("a start that takes a minute is waited for, and told", async () => {
  const server = await project.serve();
  const go = join(project.root, "go");
  command(`while [ ! -e "${go}" ]; do sleep 0.02; done\n${publishing(server.port)}`);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const phases: string[] = [];
    const answer = ask(folder, undefined, ({ phase }) => phases.push(phase));
    while (starts().length === 0) await sleep(10);
    vi.advanceTimersByTime(65_000);
    writeFileSync(go, "");
    expect((await answer).hits).toHaveLength(1);
    expect(phases.slice(0, 3)).toEqual(["embedding", "starting", "embedding"]);
  } finally {
    vi.useRealTimers();
  }
});

test("in a copied folder the server of the original is not asked, one of its own is started", async () => {
  const server = await project.serve();
  project.write("server.lock", "");
  project.change({ lock: "1:2" });
  command(`echo '{"ok": false, "error": "failed", "message": "not now"}'; exit 1`);
  await expect(ask()).rejects.toThrow("could not be started (not now)");
  expect(server.asked).toEqual([]);
});

test("the tools that read say that a server is started", async () => {
  const server = await project.serve();
  command(publishing(server.port));
  const said: string[] = [];
  const tool = outlineTool(project.client({ PATH: `${folder}:/usr/bin:/bin` }));
  await tool.execute("id", { doc: "guide" }, undefined, ({ details }) => said.push(details.summary), {
    ...FakePi.load().context(project.root),
  });
  expect(said).toEqual(["reading", "starting the knowledge-base server"]);
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
