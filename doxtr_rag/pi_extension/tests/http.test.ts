import { afterEach, beforeEach, expect, test } from "vitest";
import { requestJson } from "../http.js";
import { JsonServer } from "./support/json-server.js";

let server: JsonServer;
beforeEach(async () => (server = await JsonServer.start(() => ({ body: { fine: true } }))));
afterEach(() => server.stop());

const get = (limitMs = 1_000, signal?: AbortSignal): ReturnType<typeof requestJson> =>
  requestJson({ method: "GET", url: new URL(`${server.url}/x?y=1`), limitMs, signal });

test("JSON comes back with its status", async () => {
  server.respondWith(() => ({ status: 404, body: { error: "x" } }));
  expect(await get()).toEqual({ status: 404, body: { error: "x" } });
});

test("an answer that is no JSON is undefined", async () => {
  server.respondWith(() => ({ raw: "<html>" }));
  expect(await get()).toEqual({ status: 200, body: undefined });
});

test("connections are used again", async () => {
  for (let index = 0; index < 5; index += 1) await get();
  expect(server.connections).toBe(1);
});

test("a redirect is not followed", async () => {
  server.respondWith(() => ({ status: 302, headers: { Location: `${server.url}/elsewhere` } }));
  await expect(get()).rejects.toThrow("redirects elsewhere, which is not followed");
  expect(server.paths()).toEqual(["/x"]);
});

test("a time-out and an abort are told apart", async () => {
  server.respondWith(() => undefined);
  await expect(get(50)).rejects.toMatchObject({
    kind: "timeout",
    message: `${server.url} did not answer within 0.05 s.`,
  });
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 20);
  const started = performance.now();
  await expect(get(5_000, controller.signal)).rejects.toMatchObject({
    kind: "aborted",
    message: "The knowledge base call was aborted.",
  });
  expect(performance.now() - started).toBeLessThan(500);
});

test("a call that was given up before it began asks nobody", async () => {
  await expect(get(1_000, AbortSignal.abort())).rejects.toMatchObject({ kind: "aborted" });
  expect(server.asked).toEqual([]);
});

test("nobody there is said with the address", async () => {
  const { url } = server;
  await server.stop();
  await expect(get()).rejects.toMatchObject({
    kind: "unreachable",
    message: `Nothing answers at ${url} (ECONNREFUSED).`,
  });
});

test("loopback is never reached through a proxy", async () => {
  const original = globalThis.fetch;
  globalThis.fetch = () => Promise.reject(new Error("fetch takes the proxy of the environment"));
  try {
    expect(await get()).toMatchObject({ status: 200 });
  } finally {
    globalThis.fetch = original;
  }
});
