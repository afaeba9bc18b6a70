/** What every store is asked, and what it answers. */
import type { Chunk } from "./chunks.js";
import { FUSION } from "./contract.js";
import type { Degradation } from "./render.js";
import type { RankedHit } from "./rrf.js";

export type Question = {
  readonly query: string;
  readonly vector: Float32Array;
  readonly topK: number;
  /** Which documents to look in; "" is all of them. */
  readonly documents: string;
};

export type StoreAnswer = {
  /** One for each pool of the store. */
  readonly rankings: readonly (readonly RankedHit[])[];
  readonly chunks: ReadonlyMap<string, Chunk>;
  readonly degraded: readonly Degradation[];
};

/** Return how many hits each pool is asked for. */
export function poolSize(topK: number): number {
  return Math.max(FUSION.min_pool, FUSION.pool_factor * topK);
}
