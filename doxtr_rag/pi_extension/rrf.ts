/** Ranked lists of chunks and how to fuse them. */
import { FUSION } from "./contract.js";
import { compareText, sectionId } from "./sections.js";

export type RankedHit = { readonly chunkId: string; readonly textHash: string; readonly store: string };
export type FusedHit = RankedHit & { readonly score: number };

/**
 * Merge rankings by rank alone: score = sum of 1 / (60 + rank), rank from 1.
 *
 * Equal texts count once per ranking and keep the store in which they were seen first. Ties go to the store that was
 * asked first, then to the smaller chunk id.
 */
export function reciprocalRankFusion(rankings: readonly (readonly RankedHit[])[]): FusedHit[] {
  const scores = new Map<string, number>();
  const firstSeen = new Map<string, RankedHit>();
  const stores = new Map<string, number>();
  for (const ranking of rankings) {
    const counted = new Set<string>();
    for (const [index, hit] of ranking.entries()) {
      if (!stores.has(hit.store)) stores.set(hit.store, stores.size);
      if (counted.has(hit.textHash)) continue;
      counted.add(hit.textHash);
      scores.set(hit.textHash, (scores.get(hit.textHash) ?? 0) + 1 / (FUSION.rank_constant + index + 1));
      if (!firstSeen.has(hit.textHash)) firstSeen.set(hit.textHash, hit);
    }
  }
  const fused = [...firstSeen].map(([textHash, hit]) => ({ ...hit, score: scores.get(textHash) ?? 0 }));
  const place = (hit: RankedHit): number => stores.get(hit.store) ?? stores.size;
  return fused.sort((a, b) => b.score - a.score || place(a) - place(b) || compareText(a.chunkId, b.chunkId));
}

/** Return the best hit of each section, best sections first, at most `count`, scores divided by the best one. */
export function bestSections(fused: readonly FusedHit[], count: number): FusedHit[] {
  const sections = new Map<string, FusedHit>();
  for (const hit of fused) {
    if (sections.size === count) break;
    const section = sectionId(hit.chunkId);
    if (!sections.has(section)) sections.set(section, hit);
  }
  const best = fused[0]?.score ?? 1;
  return [...sections.values()].map((hit) => ({ ...hit, score: hit.score / best }));
}
