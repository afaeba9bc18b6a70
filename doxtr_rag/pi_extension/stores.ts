/** Every store asked at the same time; one that fails is an outcome, not an error. */
import { askChroma } from "./chroma.js";
import { chunkOf } from "./chunks.js";
import type { Chunk } from "./chunks.js";
import type { Call } from "./client.js";
import { FUSION } from "./contract.js";
import { base64Of } from "./embed-client.js";
import type { Store } from "./endpoints.js";
import { asKnowledgeBaseError } from "./errors.js";
import type { KnowledgeBaseError } from "./errors.js";
import { listOf, objectOf, textOf, textOrEmpty } from "./json.js";
import { poolSize } from "./question.js";
import type { Question, StoreAnswer } from "./question.js";
import type { RankedHit } from "./rrf.js";

export type StoreOutcome =
  | { readonly kind: "answered"; readonly store: Store; readonly answer: StoreAnswer }
  | { readonly kind: "failed"; readonly store: Store; readonly error: KnowledgeBaseError };

const MAX_IDS = 200;

/** Return what every store of the knowledge base said, in their order. */
export function askStores(call: Call, question: Question, onOutcome: () => void): Promise<StoreOutcome[]> {
  return Promise.all(
    call.base.endpoints.stores.map(async (store): Promise<StoreOutcome> => {
      try {
        const ask = store.mode === "http" ? askChroma : askServer;
        return { kind: "answered", store, answer: await ask(call, store, question) };
      } catch (error) {
        const failure = asKnowledgeBaseError(error);
        if (failure.kind === "aborted") throw failure;
        return { kind: "failed", store, error: failure };
      } finally {
        onOutcome();
      }
    }),
  );
}

/** Return chunks of a store by id, those that are gone left out. */
export async function fetchChunks(
  call: Call,
  store: Store,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Chunk>> {
  const said = objectOf(
    await post(call, `chunks/${encodeURIComponent(store.name)}`, { ids: ids.slice(0, MAX_IDS) }),
    "answer",
  );
  return chunksOf(said["chunks"]);
}

/** Send a request to the api port of the knowledge base's server. */
export function post({ base, server, signal }: Call, path: string, body: unknown): Promise<unknown> {
  const origin = base.endpoints.searchUrl;
  return server.request(base, { url: origin && new URL(`/${path}`, origin), body, signal });
}

async function askServer(call: Call, store: Store, question: Question): Promise<StoreAnswer> {
  const said = objectOf(
    await post(call, `search/${encodeURIComponent(store.name)}`, {
      query: question.query,
      vector: base64Of(question.vector),
      fingerprint: call.base.endpoints.embedding.fingerprint,
      size: poolSize(question.topK),
      best: FUSION.best_factor * question.topK,
      ...(question.documents === "" ? {} : { documents: question.documents }),
    }),
    "answer",
  );
  return {
    rankings: listOf(said["pools"], "pools").map((pool) => rankingOf(objectOf(pool, "pool")["hits"], store.name)),
    chunks: chunksOf(said["chunks"]),
    degraded: listOf(said["degraded"] ?? [], "degradations").map((entry) => {
      const { code, detail } = objectOf(entry, "degradation");
      return { code: textOrEmpty(code), detail: textOrEmpty(detail) };
    }),
  };
}

function rankingOf(hits: unknown, store: string): RankedHit[] {
  return listOf(hits, "hits").map((hit) => {
    const [chunkId, textHash] = listOf(hit, "hit");
    return { chunkId: textOf(chunkId, "chunk id"), textHash: textOf(textHash, "text hash"), store };
  });
}

function chunksOf(value: unknown): Map<string, Chunk> {
  return new Map(Object.entries(objectOf(value, "chunks")).map(([id, chunk]) => [id, chunkOf(chunk)]));
}
