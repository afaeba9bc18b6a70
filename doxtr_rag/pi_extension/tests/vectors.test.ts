/** Every vector that Python runs as well. */
import { describe, expect, test } from "vitest";
import { citation, quote } from "../citations.js";
import type { Cited } from "../citations.js";
import { withoutControls } from "../display.js";
import { EndpointsError, readEndpoints } from "../endpoints.js";
import { answerMarkdown } from "../render.js";
import type { Degradation, RenderedHit } from "../render.js";
import { bestSections, reciprocalRankFusion } from "../rrf.js";
import { scrub } from "../scrub.js";
import { sectionId } from "../sections.js";
import { proofOf } from "../server.js";
import { vectors, whole } from "./support/texts.js";
import type { Text } from "./support/texts.js";

type HitVector = { readonly id: string; readonly store: string; readonly text_hash: string };
type FusedVector = { readonly id: string; readonly store: string; readonly score: number };
type StoreVector = {
  readonly store: string;
  readonly pools: readonly { readonly hits: readonly (readonly [string, string, number])[] }[];
};
type BestVector = { readonly section: string; readonly chunk: string; readonly store: string; readonly score: number };
type RenderVector = Record<keyof RenderedHit, unknown> & {
  readonly title: Text;
  readonly text: Text;
  readonly url: Text;
};
type EndpointsVector = { readonly document: unknown; readonly valid: boolean; readonly at?: string };

const documents = vectors<EndpointsVector>("endpoints");

describe("scrub", () => {
  test.each(vectors<{ readonly text: Text; readonly expected: Text }>("scrub"))("$name", ({ text, expected }) => {
    const scrubbed = scrub(whole(text));
    expect(scrubbed).toBe(whole(expected));
    expect(scrub(scrubbed)).toBe(scrubbed);
  });
});

describe("control characters", () => {
  test.each(vectors<{ readonly text: string; readonly expected: string }>("controls"))(
    "$name",
    ({ text, expected }) => {
      expect(withoutControls(text)).toBe(expected);
      expect(withoutControls(expected)).toBe(expected);
    },
  );
});

describe("section ids", () => {
  test.each(vectors<{ readonly chunk_id: string; readonly section_id: string }>("section_ids"))(
    "$name",
    ({ chunk_id, section_id }) => expect(sectionId(chunk_id)).toBe(section_id),
  );
});

describe("citation and quote", () => {
  test.each(vectors<Cited & Record<"text" | "query" | "citation" | "quote", string>>("citation_quote"))(
    "$name",
    (vector) => {
      expect(citation(vector)).toBe(vector.citation);
      expect(quote(vector.text, vector.query)).toBe(vector.quote);
      expect(vector.text).toContain(vector.quote);
    },
  );
});

describe("reciprocal rank fusion", () => {
  test.each(
    vectors<{ readonly rankings: readonly (readonly HitVector[])[]; readonly expected: readonly FusedVector[] }>("rrf"),
  )("$name", ({ rankings: given, expected }) => {
    const fused = reciprocalRankFusion(
      given.map((ranking) => ranking.map((hit) => ({ chunkId: hit.id, textHash: hit.text_hash, store: hit.store }))),
    );
    expect(fused.map(({ chunkId, store }) => [chunkId, store])).toEqual(expected.map(({ id, store }) => [id, store]));
    fused.forEach(({ score }, index) => expect(score).toBeCloseTo(expected[index]?.score ?? Number.NaN, 12));
  });
});

describe("fusion of stores", () => {
  test.each(
    vectors<{
      readonly top_k: number;
      readonly stores: readonly StoreVector[];
      readonly expected: readonly BestVector[];
    }>("fusion"),
  )("$name", ({ top_k, stores, expected }) => {
    const given = stores.flatMap(({ store, pools }) =>
      pools.map(({ hits }) => hits.map(([chunkId, textHash]) => ({ chunkId, textHash, store }))),
    );
    const best = bestSections(reciprocalRankFusion(given), top_k);
    expect(best.map(({ chunkId, store }) => ({ section: sectionId(chunkId), chunk: chunkId, store }))).toEqual(
      expected.map(({ score: _, ...rest }) => rest),
    );
    best.forEach(({ score }, index) => expect(score).toBeCloseTo(expected[index]?.score ?? Number.NaN, 12));
  });
});

describe("rendering", () => {
  test.each(
    vectors<{
      readonly hits: readonly RenderVector[];
      readonly degraded: readonly Degradation[];
      readonly expected: Text;
    }>("render"),
  )("$name", ({ hits, degraded, expected }) => {
    const given = hits.map(
      (hit) => ({ ...hit, title: whole(hit.title), text: whole(hit.text), url: whole(hit.url) }) as RenderedHit,
    );
    expect(answerMarkdown(given, degraded)).toBe(whole(expected));
  });
});

type IdentityVector = { readonly kb_id: string; readonly port: number; readonly proof: string } & Record<
  "token" | "nonce",
  Text
>;

describe("identity", () => {
  test.each(vectors<IdentityVector>("identity"))("$name", ({ token, kb_id, port, nonce, proof }) => {
    expect(proofOf(whole(token), kb_id, String(port), whole(nonce))).toBe(proof);
  });
});

describe("endpoints", () => {
  test.each(documents.filter(({ valid }) => valid))("$name", ({ document }) =>
    expect(readEndpoints(document).kbId).not.toBe(""),
  );

  test.each(documents.filter(({ valid }) => !valid))("$name is refused", ({ document, at }) => {
    expect(() => readEndpoints(document)).toThrow(EndpointsError);
    expect(() => readEndpoints(document)).toThrow(at === "" ? "expected an object" : `${at}: expected`);
  });
});
