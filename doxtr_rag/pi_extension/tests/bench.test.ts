/** What searching costs beside one raw Chroma query; benchmarks/agents.py starts it with these variables. */
import { subscribe } from "node:diagnostics_channel";
import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { knowledgeBaseOf } from "../addressing.js";
import { Client } from "../client.js";
import { embedQuery } from "../embed-client.js";
import { isObject } from "../json.js";
import { search } from "../search.js";
import { readSettings } from "../settings.js";

const { DOXTR_BENCH_CWD: cwd = "", DOXTR_BENCH_OUT: out = "", DOXTR_BENCH_QUERIES: given = "[]", DOXTR_BENCH_SEARCHES: searches = "0" } = process.env;

const ROUNDS = 300;
const WARM_UP = 30;
const CONCURRENT = 32;

test.runIf(cwd !== "")("measures the search", { timeout: 3_600_000 }, async () => {
  const queries = JSON.parse(given) as string[];
  const question = (at: number): string => queries[at % queries.length] ?? "";
  const client = new Client(process.env);
  const base = knowledgeBaseOf(cwd, readSettings(process.env));
  const whole = (query: string) => search(client, cwd, { query, topK: 5, documents: "" }, { mayLaunch: false, signal: undefined });
  const counters = { requests: 0, sockets: 0 };
  subscribe("http.client.request.start", () => (counters.requests += 1));
  subscribe("net.client.socket", () => (counters.sockets += 1));

  const call = { base, settings: readSettings(process.env), server: client.server, signal: undefined, needsServer: true };
  const vector = [...(await embedQuery(call, question(0)))];
  const shared = base.endpoints.stores[0];
  if (!shared) throw new Error("no shared store");
  const collections = `http://127.0.0.1:${shared.port}/api/v2/tenants/${shared.tenant}/databases/${shared.database}/collections`;
  const collection = await client.server.request(base, { url: new URL(`${collections}/${shared.collection}`), signal: undefined });
  const id = isObject(collection) ? String(collection["id"]) : "";
  const body = { query_embeddings: [vector], n_results: 10, include: ["documents", "metadatas", "distances"] };
  const raw = () => client.server.request(base, { url: new URL(`${collections}/${id}/query`), body, signal: undefined });

  const rawMs: number[] = [];
  const wholeMs: number[] = [];
  for (let at = 0; at < WARM_UP; at += 1) {
    await raw();
    await whole(question(at));
  }
  const before = { ...counters };
  for (let at = 0; at < ROUNDS; at += 1) {
    rawMs.push(await elapsed(raw));
    wholeMs.push(await elapsed(() => whole(question(at))));
  }
  const requests = (counters.requests - before.requests - ROUNDS) / ROUNDS;
  const sockets = counters.sockets - before.sockets;

  let lost = 0;
  const togetherMs: number[] = [];
  for (let round = 0; round < 10; round += 1) {
    const started = Array.from({ length: CONCURRENT }, (_, at) => elapsed(async () => ((await whole(question(at))).hits.length === 0 ? (lost += 1) : 0)));
    for (const outcome of await Promise.allSettled(started)) {
      if (outcome.status === "fulfilled") togetherMs.push(outcome.value);
      else lost += 1;
    }
  }
  for (let done = 0; done < Number(searches); done += CONCURRENT / 4) {
    await Promise.all(Array.from({ length: CONCURRENT / 4 }, (_, at) => whole(question(done + at))));
  }
  expect(wholeMs).toHaveLength(ROUNDS);
  writeFileSync(out, JSON.stringify({ rawMs, wholeMs, togetherMs, lost, requests, sockets, stores: base.endpoints.stores.length }));
});

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}
