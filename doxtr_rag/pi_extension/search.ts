/** The whole path of a question: embed once, ask every store at once, fuse, cite. */
import { hitOf } from "./chunks.js";
import type { Chunk, Hit } from "./chunks.js";
import type { Call, CallOptions, Client } from "./client.js";
import { RENDERING } from "./contract.js";
import { withoutControls } from "./display.js";
import { embedQuery } from "./embed-client.js";
import type { Store } from "./endpoints.js";
import { isServerDown, KnowledgeBaseError } from "./errors.js";
import type { StoreAnswer } from "./question.js";
import { answerMarkdown } from "./render.js";
import type { Degradation } from "./render.js";
import { bestSections, reciprocalRankFusion } from "./rrf.js";
import type { FusedHit } from "./rrf.js";
import { askStores, fetchChunks } from "./stores.js";
import type { StoreOutcome } from "./stores.js";

export type SearchRequest = {
  readonly query: string;
  readonly topK: number;
  /** Which documents to look in; "" is all of them. */
  readonly documents: string;
};

export type Phase =
  | { readonly phase: "starting" | "embedding" }
  | { readonly phase: "searching"; readonly answered: number; readonly stores: number };

export type Answer = {
  /** Whether there was a question; without one nobody is asked. */
  readonly wasAsked: boolean;
  readonly hits: readonly Hit[];
  readonly degraded: readonly Degradation[];
  readonly stores: number;
  readonly failedStores: number;
  readonly elapsedMs: number;
};

export type SearchOptions = CallOptions & {
  readonly signal: AbortSignal | undefined;
  readonly onPhase?: (phase: Phase) => void;
};

type Answered = Extract<StoreOutcome, { kind: "answered" }>;
type Failed = Extract<StoreOutcome, { kind: "failed" }>;

const NOTHING_ASKED: Answer = { wasAsked: false, hits: [], degraded: [], stores: 0, failedStores: 0, elapsedMs: 0 };

/** Return what the knowledge base of a folder knows about a question; throws when no store could be asked. */
export async function search(
  client: Client,
  cwd: string,
  request: SearchRequest,
  options: SearchOptions,
): Promise<Answer> {
  if (withoutControls(request.query).trim() === "") return NOTHING_ASKED;
  const started = performance.now();
  const launching = { ...options, onLaunch: () => options.onPhase?.({ phase: "starting" }) };
  const found = await client.call(cwd, options.signal, launching, (call) => answerOf(call, request, options));
  return { ...found, elapsedMs: Math.round(performance.now() - started) };
}

/** Return an answer as an agent reads it. */
export function textOfAnswer({ wasAsked, hits, degraded }: Answer): string {
  return wasAsked ? answerMarkdown(hits, degraded) : RENDERING.nothing_asked;
}

async function answerOf(
  call: Call,
  request: SearchRequest,
  { onPhase }: SearchOptions,
): Promise<Omit<Answer, "elapsedMs">> {
  const stores = call.base.endpoints.stores.length;
  let asked = 0;
  onPhase?.({ phase: "embedding" });
  const vector = await embedQuery(call, request.query);
  onPhase?.({ phase: "searching", answered: asked, stores });
  const outcomes = await askStores(call, { ...request, vector }, () => {
    asked += 1;
    onPhase?.({ phase: "searching", answered: asked, stores });
  });
  const answered = outcomes.filter((outcome): outcome is Answered => outcome.kind === "answered");
  const failed = outcomes.filter((outcome): outcome is Failed => outcome.kind === "failed");
  const down = failed.find(({ error }) => isServerDown(error));
  if (down && (call.needsServer || answered.length === 0)) throw down.error;
  if (answered.length === 0) throw totalFailure(failed);
  const fused = reciprocalRankFusion(answered.flatMap(({ answer }) => [...answer.rankings]));
  if (fused.length === 0 && failed.length === 0 && request.documents === "") throw emptyError();
  return {
    wasAsked: true,
    hits: await hitsOf(call, answered, bestSections(fused, request.topK), request.query),
    degraded: [...answered.flatMap(({ answer }) => [...answer.degraded]), ...failed.map(degradationOf)],
    stores,
    failedStores: failed.length,
  };
}

async function hitsOf(
  call: Call,
  answered: readonly Answered[],
  best: readonly FusedHit[],
  query: string,
): Promise<Hit[]> {
  const texts = new Map<string, ReadonlyMap<string, Chunk>>();
  for (const { store, answer } of answered) texts.set(store.name, await withMissing(call, store, answer, best));
  return best.flatMap((hit) => {
    const chunk = texts.get(hit.store)?.get(hit.chunkId);
    return chunk ? [hitOf(chunk, hit.store, hit.score, query)] : [];
  });
}

/** Return the chunks of a store, those that were not sent along fetched; deleted ones stay missing. */
async function withMissing(
  call: Call,
  store: Store,
  { chunks }: StoreAnswer,
  best: readonly FusedHit[],
): Promise<ReadonlyMap<string, Chunk>> {
  const missing = best
    .filter((hit) => hit.store === store.name && !chunks.has(hit.chunkId))
    .map(({ chunkId }) => chunkId);
  if (missing.length === 0 || store.mode === "http") return chunks;
  return new Map([...chunks, ...(await fetchChunks(call, store, missing))]);
}

function degradationOf({ store, error }: Failed): Degradation {
  return { code: error.kind, detail: `${store.name} store unavailable: ${error.message}` };
}

function totalFailure(failed: readonly Failed[]): KnowledgeBaseError {
  if (failed.every(({ error }) => error.kind === "index_not_built")) return emptyError();
  const reasons = failed.map(({ store, error }) => `${store.name}: ${error.message.replace(/\.$/u, "")}`).join("; ");
  return new KnowledgeBaseError(
    failed[0]?.error.kind ?? "failed",
    `No store of the knowledge base could be asked (${reasons}): run doxtr-rag status.`,
  );
}

function emptyError(): KnowledgeBaseError {
  return new KnowledgeBaseError(
    "index_not_built",
    "The knowledge base is empty: run sphinx-build; doxtr-rag status says how the last build ended.",
  );
}
