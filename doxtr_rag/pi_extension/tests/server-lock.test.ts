import { spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isServerAlive } from "../server-lock.js";
import { Project } from "./support/knowledge-base.js";

let project: Project;
beforeEach(() => (project = new Project()));
afterEach(() => project.close());

function signed(holder: unknown): boolean {
  project.write("server.lock", JSON.stringify(holder));
  return isServerAlive(project.path);
}

test("a process of this machine that signed the lock is alive until it ends", async () => {
  const process = spawn("sleep", ["60"]);
  expect(signed({ pid: process.pid, host: hostname() })).toBe(true);
  process.kill();
  await once(process, "exit");
  expect(isServerAlive(project.path)).toBe(false);
});

test.each<[string, unknown]>([
  ["another machine", { pid: process.pid, host: "elsewhere" }],
  ["no process", { pid: 0, host: hostname() }],
  ["a group of processes", { pid: -1, host: hostname() }],
  ["half a process", { pid: 7.5, host: hostname() }],
  ["nobody", ""],
  ["something that is no holder", [1]],
])("a lock signed by %s says nothing", (_, holder) => expect(signed(holder)).toBe(false));

test("without a lock nobody is alive", () => expect(isServerAlive(project.path)).toBe(false));
