/** A store that only speaks Chroma's v2 REST: collection by name, then query or get. */
import { locatorOf } from "./chunks.js";
import type { Chunk } from "./chunks.js";
import type { Call } from "./client.js";
import type { Store } from "./endpoints.js";
import { KnowledgeBaseError } from "./errors.js";
import { CONNECT_MS, isLoopback, READ_MS, requestJson } from "./http.js";
import { isObject, listOf, objectOf, parsed, textOf, textOrEmpty } from "./json.js";
import type { JsonObject } from "./json.js";
import { poolSize } from "./question.js";
import type { Question, StoreAnswer } from "./question.js";
import type { Degradation } from "./render.js";
import { chunkPlace, documentMatcher } from "./sections.js";
import { successful } from "./server.js";
import { hasChosenEndpoints } from "./settings.js";
import type { Headers } from "./settings.js";

/** Chroma cannot match parts of names, so that more is asked for and sifted here (retrieval R29). */
const SIFTED_WINDOW = 500;
const SIFTED_FACTOR = 4;
const MAX_DOCUMENT_CHUNKS = 5_000;

export type Collection = { readonly url: URL; readonly headers: Readonly<Record<string, string>> };

/** Return the dense ranking of one store. */
export async function askChroma(call: Call, store: Store, question: Question): Promise<StoreAnswer> {
  const collection = await openCollection(call, store);
  const wanted = poolSize(question.topK);
  const window = question.documents === "" ? wanted : Math.max(SIFTED_FACTOR * wanted, SIFTED_WINDOW);
  const said = objectOf(
    await post(call, collection, "query", {
      query_embeddings: [[...question.vector]],
      n_results: window,
      include: ["documents", "metadatas", "distances"],
    }),
    "answer",
  );
  const row = (key: string): readonly unknown[] => listOf(listOf(said[key], key)[0] ?? [], key);
  const found = chunksOf(row("ids"), row("documents"), row("metadatas"), store);
  const matches = documentMatcher(question.documents);
  const kept = found.filter(({ document, sourceFile }) => matches(document) || matches(sourceFile)).slice(0, wanted);
  const isCut = kept.length < question.topK && found.length === window;
  return {
    rankings: [kept.map(({ id, textHash }) => ({ chunkId: id, textHash, store: store.name }))],
    chunks: new Map(kept.map((chunk) => [chunk.id, chunk])),
    degraded: isCut ? [truncated(store)] : [],
  };
}

/** Return the chunks of a document, named by its source file; Chroma keeps no other name of it. */
export async function chromaDocument(call: Call, store: Store, name: string): Promise<readonly Chunk[]> {
  const collection = await openCollection(call, store);
  const said = objectOf(
    await post(call, collection, "get", {
      where: { source_file: name },
      limit: MAX_DOCUMENT_CHUNKS,
      include: ["documents", "metadatas"],
    }),
    "answer",
  );
  return chunksOf(
    listOf(said["ids"], "ids"),
    listOf(said["documents"], "documents"),
    listOf(said["metadatas"], "metadatas"),
    store,
  );
}

/** Return how many chunks a store holds. */
export async function chromaCount(call: Call, store: Store): Promise<number> {
  const { url, headers } = await openCollection(call, store);
  const count = new URL(`${url.pathname}/count`, url);
  const answer = await requestJson({ method: "GET", url: count, headers, limitMs: READ_MS, signal: call.signal });
  return Number(successful(answer, count));
}

/** Find a collection by name; throws when it holds vectors of another model. */
async function openCollection(call: Call, store: Store): Promise<Collection> {
  const headers = headersFor(call, store);
  const folder = `/api/v2/tenants/${encodeURIComponent(store.tenant)}/databases/${encodeURIComponent(store.database)}/collections`;
  const url = new URL(`${folder}/${encodeURIComponent(store.collection)}`, originOf(store));
  const answer = await requestJson({ method: "GET", url, headers, limitMs: CONNECT_MS, signal: call.signal });
  if (answer.status === 404) {
    throw new KnowledgeBaseError(
      "index_not_built",
      `${url.origin} has no collection ${store.collection} in ${store.database}: run sphinx-build`,
    );
  }
  const said = objectOf(successful(answer, url), "collection");
  checkModel(call, store, said);
  return { url: new URL(`${folder}/${encodeURIComponent(textOf(said["id"], "collection id"))}`, url), headers };
}

function checkModel(call: Call, store: Store, { dimension, metadata }: JsonObject): void {
  const { embedding } = call.base.endpoints;
  const fingerprint = isObject(metadata) ? metadata["fingerprint"] : undefined;
  if (typeof dimension === "number" && dimension !== embedding.dimension) {
    throw new KnowledgeBaseError(
      "identity_mismatch",
      `${store.collection} has ${dimension} dimensions, ${embedding.model} has ${embedding.dimension}: run doxtr-rag rebuild`,
    );
  }
  if (fingerprint !== undefined && fingerprint !== null && fingerprint !== embedding.fingerprint) {
    throw new KnowledgeBaseError(
      "identity_mismatch",
      `${store.collection} was filled by another model than ${embedding.model}: run doxtr-rag rebuild`,
    );
  }
}

async function post(call: Call, { url, headers }: Collection, verb: string, body: unknown): Promise<unknown> {
  const target = new URL(`${url.pathname}/${verb}`, url);
  const answer = await requestJson({
    method: "POST",
    url: target,
    headers,
    body,
    limitMs: READ_MS,
    signal: call.signal,
  });
  return successful(answer, target);
}

/** Return the headers that the store wants; values come from the environment only. */
function headersFor(call: Call, store: Store): Record<string, string> {
  if (store.headerKeys.length === 0) return {};
  const isShared = store.scope === "SHARED_ORG";
  const given: Headers = isShared ? call.settings.sharedHeaders : call.settings.privateHeaders;
  const variable = isShared ? "DOXTR_RAG_SHARED_STORE_HEADERS" : "DOXTR_RAG_LOCAL_STORE_HEADERS";
  checkReceiver(call, store, variable);
  return Object.fromEntries(
    store.headerKeys.map((name) => {
      const value = given.get(name.toLowerCase());
      if (value === undefined)
        throw new KnowledgeBaseError("config", `the header ${name} has no value: set ${variable}`);
      return [name, value];
    }),
  );
}

/**
 * Refuse to send secrets of this user to a machine that only a file in a project names.
 *
 * Whoever unpacks an archive owns the files in it, with whatever rights the archive gave them.
 */
function checkReceiver({ base, settings }: Call, { host, ssl }: Store, variable: string): void {
  if (isLoopback(host)) return;
  if (!ssl) {
    throw new KnowledgeBaseError(
      "insecure",
      `headers are not sent to ${host} without TLS: use an https address for the store`,
    );
  }
  if (!hasChosenEndpoints(settings)) {
    throw new KnowledgeBaseError(
      "insecure",
      `the values of ${variable} are not sent to ${host}, which only a file of this project names: when you trust it, set DOXTR_RAG_ENDPOINTS=${base.path}`,
    );
  }
}

function originOf({ host, port, ssl }: Store): string {
  return `${ssl ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function chunksOf(
  ids: readonly unknown[],
  texts: readonly unknown[],
  metadatas: readonly unknown[],
  store: Store,
): Chunk[] {
  return ids.map((id, index) => chunkOf(textOf(id, "chunk id"), textOrEmpty(texts[index]), metadatas[index], store));
}

function chunkOf(id: string, text: string, metadata: unknown, store: Store): Chunk {
  const fields = isObject(metadata) ? metadata : {};
  const project = textOrEmpty(fields["project"]);
  const breadcrumb = parsed(textOrEmpty(fields["breadcrumb"]));
  return {
    id,
    project,
    ...chunkPlace(id, project),
    text,
    breadcrumb: Array.isArray(breadcrumb) ? breadcrumb.map(textOrEmpty).filter((title) => title !== "") : [],
    url: textOrEmpty(fields["url"]),
    sourceFile: textOrEmpty(fields["source_file"]),
    locator: locatorOf(parsed(textOrEmpty(fields["provenance"]))),
    scope: textOrEmpty(fields["access_scope"]) || store.scope,
    textHash: textOrEmpty(fields["text_hash"]) || id,
    page: null,
  };
}

function truncated(store: Store): Degradation {
  return {
    code: "filter_truncated",
    detail: `${store.name}: only its ${SIFTED_WINDOW} or more nearest chunks were sifted by document`,
  };
}
