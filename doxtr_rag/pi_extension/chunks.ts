/** A chunk as the server sends it. */
import { citation, quote } from "./citations.js";
import { isObject, listOf, objectOf, textOf, textOrEmpty } from "./json.js";

export type Locator = {
  readonly kind: string;
  readonly value: string | number;
  readonly end: string | number | null;
};

export type Chunk = {
  readonly id: string;
  readonly project: string;
  readonly document: string;
  readonly anchor: string;
  readonly text: string;
  readonly breadcrumb: readonly string[];
  readonly url: string;
  readonly sourceFile: string;
  readonly locator: Locator | null;
  readonly scope: string;
  readonly textHash: string;
  readonly page: string | null;
};

/** One result: a section under its best chunk, with its receipt. */
export type Hit = {
  readonly title: string;
  readonly breadcrumb: readonly string[];
  readonly document: string;
  readonly url: string;
  readonly locator: Locator | null;
  readonly citation: string;
  readonly quote: string;
  readonly scope: string;
  readonly store: string;
  readonly text: string;
  readonly score: number;
};

/** Read a chunk off the wire; throws when a field is missing. */
export function chunkOf(value: unknown): Chunk {
  const record = objectOf(value, "chunk");
  return {
    id: textOf(record["id"], "chunk id"),
    project: textOf(record["project"], "project"),
    document: textOf(record["document"], "document"),
    anchor: textOf(record["anchor"], "anchor"),
    text: textOf(record["text"], "text"),
    breadcrumb: listOf(record["breadcrumb"], "breadcrumb").map((title) => textOf(title, "title")),
    url: textOf(record["url"], "url"),
    sourceFile: textOf(record["source_file"], "source file"),
    locator: locatorOf(record["locator"]),
    scope: textOf(record["scope"], "scope"),
    textHash: textOf(record["text_hash"], "text hash"),
    page: typeof record["page"] === "string" && record["page"].startsWith("file:") ? record["page"] : null,
  };
}

/** Return a locator, written as an object or as a list; null when there is none. */
export function locatorOf(value: unknown): Locator | null {
  const [kind, place, end] = Array.isArray(value)
    ? (value as readonly unknown[])
    : isObject(value)
      ? [value["kind"], value["value"], value["end"]]
      : [];
  if (typeof kind !== "string" || !isPlace(place)) return null;
  return { kind, value: place, end: isPlace(end) ? end : null };
}

/** Return the result that a chunk of a store is. */
export function hitOf(chunk: Chunk, store: string, score: number, query: string): Hit {
  return {
    title: titleOf(chunk),
    breadcrumb: chunk.breadcrumb,
    document: chunk.document,
    url: addressOf(chunk),
    locator: chunk.locator ?? { kind: "anchor", value: chunk.anchor, end: null },
    citation: citation(chunk),
    quote: quote(chunk.text, query),
    scope: chunk.scope,
    store,
    text: chunk.text,
    score,
  };
}

/** Return the title of the section, or of the document before its first section. */
export function titleOf(chunk: Chunk): string {
  return textOrEmpty(chunk.breadcrumb.at(-1)) || chunk.document;
}

/** Return where a chunk opens: its built page, else its address, with anchor; "" when it has neither. */
export function addressOf({ page, url, anchor }: Chunk): string {
  const address = page ?? url;
  return address === "" || anchor === "" || address.includes("#") ? address : `${address}#${anchor}`;
}

function isPlace(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}
