import { hostname } from "node:os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { knowledgeBaseOf } from "../addressing.js";
import { ServerClient } from "../server.js";
import { readSettings } from "../settings.js";
import { KB_ID, Project } from "./support/knowledge-base.js";
import { JsonServer } from "./support/json-server.js";
import type { Reply } from "./support/json-server.js";

let project: Project;
let client: ServerClient;
beforeEach(() => {
  project = new Project();
  client = new ServerClient();
});
afterEach(() => project.close());

function health(signal?: AbortSignal, served: Project = project): Promise<unknown> {
  const base = knowledgeBaseOf(served.root, readSettings({}));
  return client.request(base, {
    url: base.endpoints.searchUrl && new URL("/health", base.endpoints.searchUrl),
    signal,
  });
}

test("the token goes only to a server that proved itself, and the proof is kept", async () => {
  const server = await project.serve();
  await health();
  await health();
  expect(server.paths()).toEqual(["/identity", "/health", "/health"]);
  expect(server.asked[0]?.headers["authorization"]).toBeUndefined();
  expect(server.asked[0]?.search.get("nonce")).toMatch(/^[0-9a-f]{64}$/u);
  expect(server.asked[1]?.headers["authorization"]).toBe(`Bearer ${project.token}`);
});

test("a new token needs a new proof", async () => {
  const server = await project.serve();
  await health();
  project.write("server.token", "ab".repeat(32));
  await expect(health()).rejects.toMatchObject({ kind: "server_down" });
  expect(server.paths()).toEqual(["/identity", "/health", "/identity"]);
});

test.each<[string, (nonce: string, port: number) => Reply]>([
  ["that knows nothing", () => ({ status: 404, body: {} })],
  ["that answers everything with 200", () => ({ body: { kb_id: KB_ID, proof: "0".repeat(64) } })],
  [
    "of another knowledge base",
    (nonce, port) => ({ body: { ...(project.identity(nonce, port) as object), kb_id: "other" } }),
  ],
  ["with another token", (nonce, port) => ({ body: project.identity(nonce, port, "cd".repeat(32)) })],
  [
    "that passes on the proof of a server on another port",
    (nonce, port) => ({ body: project.identity(nonce, port + 1) }),
  ],
  ["that repeats an older proof", (_, port) => ({ body: project.identity("0".repeat(64), port) })],
  ["that sends the client elsewhere", () => ({ status: 302, headers: { Location: "http://192.0.2.1/" } })],
  ["that is no server of JSON", () => ({ raw: "SSH-2.0" })],
])("a squatter %s gets no token", async (_, identity) => {
  const squatter = await project.serve((asked) =>
    identity(asked.search.get("nonce") ?? "", Number(String(asked.headers["host"]).split(":")[1])),
  );
  await expect(health()).rejects.toMatchObject({ kind: "server_down" });
  expect(JSON.stringify(squatter.asked)).not.toContain(project.token);
  expect(squatter.paths()).toEqual(["/identity"]);
});

test("after a failed connection the proof is asked for again", async () => {
  const server = await project.serve();
  const { port } = server;
  await health();
  await server.stop();
  await expect(health()).rejects.toMatchObject({ kind: "server_down" });
  const squatter = await JsonServer.start(() => ({ body: {} }), port);
  await expect(health()).rejects.toThrow("another program answers at");
  expect(JSON.stringify(squatter.asked)).not.toContain(project.token);
  await squatter.stop();
});

test("whoever takes the port of a server that ended has to prove itself, however short the change", async () => {
  const server = await project.serve();
  const { port } = server;
  await Promise.all([health(), health(), health()]);
  await server.stop();
  const stranger = await JsonServer.start(() => ({ body: {} }), port);
  await expect(health()).rejects.toThrow("another program answers at");
  expect(stranger.paths()).toEqual(["/identity"]);
  expect(JSON.stringify(stranger.asked)).not.toContain(project.token);
  await stranger.stop();
});

test("a server that ended and came back on its port is asked again", async () => {
  const { port } = await project.serve();
  await health();
  await project.servers[0]?.stop();
  const again = await JsonServer.start((asked) => project.respond(asked), port);
  expect(await health()).toMatchObject({ status: "ready" });
  expect(again.paths()).toEqual(["/identity", "/health"]);
  await again.stop();
});

test("connections that are open at the same time prove themselves one by one, and are kept", async () => {
  const server = await project.serve();
  for (let round = 0; round < 3; round += 1) await Promise.all(Array.from({ length: 20 }, () => health()));
  expect(server.connections).toBe(20);
  expect(server.paths().filter((path) => path === "/identity")).toHaveLength(20);
});

test("a server that closes each connection after its proof is given up", async () => {
  await project.serve((asked) => ({ ...project.respond(asked), headers: { Connection: "close" } }));
  await expect(health()).rejects.toMatchObject({ kind: "server_down" });
});

test("what never answers is given up after five seconds: a server that runs is to be ended, a squatter is nobody", async () => {
  const hung = new Project();
  const never = (): Reply => undefined as unknown as Reply;
  const [squatter, server] = await Promise.all([project.serve(never), hung.serve(never)]);
  hung.write("server.lock", JSON.stringify({ pid: process.pid, host: hostname(), started: "now" }));
  await Promise.all([
    expect(health()).rejects.toMatchObject({
      kind: "server_down",
      message: `The knowledge-base server of ${project.root} is not there (${squatter.url} did not answer within 5 s): run doxtr-rag serve --detach.`,
    }),
    expect(health(undefined, hung)).rejects.toMatchObject({
      kind: "timeout",
      message: `The knowledge-base server of ${hung.root} does not answer (${server.url} did not answer within 5 s): run doxtr-rag serve --stop, then search again.`,
    }),
  ]);
  await hung.close();
});

test("a server that stops answering says so as well", async () => {
  await project.serve((asked) =>
    asked.path === "/identity" ? project.respond(asked) : (undefined as unknown as Reply),
  );
  const base = knowledgeBaseOf(project.root, readSettings({}));
  const request = { url: base.endpoints.searchUrl, signal: undefined, limitMs: 50 };
  await expect(client.request(base, request)).rejects.toThrow(
    /does not answer \(.* did not answer within 0\.05 s\): run doxtr-rag serve --stop/u,
  );
});

test("an error of the server keeps its kind and loses its control characters", async () => {
  await project.serve((asked) =>
    asked.path === "/identity"
      ? project.respond(asked)
      : { status: 503, body: { error: "weights_missing", message: "no \u001b[31mweights\u0000: run x" } },
  );
  await expect(health()).rejects.toMatchObject({ kind: "weights_missing", message: "no weights: run x" });
});

test("no server at all says how to start one", async () => {
  project.publish(null);
  await expect(health()).rejects.toThrow(
    `The knowledge-base server of ${project.root} is not there (it does not run): run doxtr-rag serve --detach.`,
  );
});

test("an abort while the proof is awaited is an abort", async () => {
  await project.serve(() => undefined as unknown as Reply);
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 20);
  await expect(health(controller.signal)).rejects.toMatchObject({ kind: "aborted" });
});
