import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakePi } from "./support/pi.js";
import { Project, wireChunk } from "./support/knowledge-base.js";
import { JsonServer } from "./support/json-server.js";

let project: Project;
let pi: FakePi;
beforeEach(() => {
  project = new Project();
  project.served.stores = {
    shared: [wireChunk("p/guide#install", "Run pip install.")],
    private: { status: 404, body: { error: "index_not_built", message: "never filled" } },
  };
  pi = FakePi.load();
});
afterEach(() => project.close());

const kb = (given: string): Promise<string> => pi.kb(given, project.root);

test("completions are the four words", () => {
  const complete = (prefix: string): string[] | undefined =>
    pi.commands
      .get("kb")
      ?.getArgumentCompletions(prefix)
      ?.map(({ value }) => value);
  expect(complete("")).toEqual(["status", "search", "sources", "reload"]);
  expect(complete("s")).toEqual(["status", "search", "sources"]);
  expect(complete("search q")).toBeUndefined();
});

test("status says of each store whether it answers, what is in it, how old it is, and what to do", async () => {
  await project.serve();
  expect((await kb("status")).split("\n")).toEqual([
    `Knowledge base of guide (${project.path})`,
    "server: ready, version 0.1.0, process 42",
    "model: tiny (3 dimensions), ready",
    "shared: ready, SHARED_ORG, 1 documents, 1 chunks, 0 min old",
    "private: index_not_built, LOCAL_PRIVATE, 0 documents, 0 chunks, never filled: run sphinx-build",
    "automatic context: off",
  ]);
});

test("status without a server starts none and says so", async () => {
  project.publish(9);
  const said = await kb("");
  expect(said).toContain("server: not running; the next search starts it, or run doxtr-rag serve --detach");
  expect(said).toContain("shared: waits for the server");
});

test("status without a knowledge base says what to do", async () => {
  expect(await pi.kb("status", "/")).toMatch(/^No knowledge base was found at or above \/: build/u);
});

test("status of a Chroma store counts its chunks", async () => {
  await project.serve();
  const chroma = await JsonServer.start(({ path }) =>
    path.endsWith("/count") ? { body: 7 } : { body: { id: "u", dimension: 3 } },
  );
  project.changeStore("shared", { mode: "http", port: chroma.port });
  expect(await kb("status")).toContain(`shared: ready, SHARED_ORG, 7 chunks, Chroma at ${chroma.url}`);
  await chroma.stop();
  expect(await kb("status")).toContain(`shared: unreachable, SHARED_ORG, Nothing answers at ${chroma.url}`);
});

test("sources says where the stores lie", async () => {
  await project.serve();
  expect((await kb("sources")).split("\n")).toEqual([
    `Sources of guide (${project.path})`,
    "shared: SHARED_ORG, served on port 8787, collection m_3 of doxtr_shared, 1 documents",
    "private: LOCAL_PRIVATE, served on port 8788, collection m_3 of doxtr_private, 0 documents",
  ]);
});

test("search shows what the model would get", async () => {
  await project.serve();
  expect(await kb("search how do I  install")).toContain("> Run pip install.");
  expect(await kb("search")).toBe("Nothing to search for: the query is empty.");
});

test("reload asks servers for a new proof", async () => {
  const server = await project.serve();
  const proofs = (): number => server.paths().filter((path) => path === "/identity").length;
  await kb("status");
  await kb("status");
  expect(proofs()).toBe(1);
  expect(await kb("reload")).toBe("Read again: kb: 2 stores");
  await kb("status");
  expect(proofs()).toBe(2);
});

test("another word shows the usage", async () => {
  expect(await kb("nonsense")).toBe("usage: /kb status | search <question> | sources | reload");
});

test("without a user interface the answer goes to the console", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
  await pi.commands.get("kb")?.handler("nonsense", { ...pi.context(project.root), hasUI: false });
  expect(log).toHaveBeenCalledWith(expect.stringMatching(/^usage: /u));
  log.mockRestore();
});
