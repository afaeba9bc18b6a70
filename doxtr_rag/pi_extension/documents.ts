/** Reading on from a hit: a document of the first store that holds it, section by section. */
import { chromaDocument } from "./chroma.js";
import { chunkOf, titleOf } from "./chunks.js";
import type { Chunk } from "./chunks.js";
import type { Call } from "./client.js";
import { line } from "./display.js";
import type { Store } from "./endpoints.js";
import { asKnowledgeBaseError, isServerDown, KnowledgeBaseError } from "./errors.js";
import { listOf, objectOf, textOrEmpty } from "./json.js";
import { sectionId } from "./sections.js";
import { post } from "./stores.js";

/** One section of a document, its parts joined; `first` is the chunk that locates it. */
export type SectionText = {
  readonly section: string;
  readonly title: string;
  readonly first: Chunk;
  readonly text: string;
};

export type DocumentSections = {
  readonly store: string;
  readonly project: string;
  readonly document: string;
  readonly sections: readonly SectionText[];
};

export type Reading = {
  readonly section: SectionText;
  readonly before: SectionText | undefined;
  readonly after: SectionText | undefined;
};

type Found = { readonly chunks: readonly Chunk[]; readonly near: readonly string[] };

const SHOWN_NAMES = 20;

/** Return a document by its name, `project/document` or source file; throws when no store holds it. */
export async function documentSections(call: Call, name: string): Promise<DocumentSections> {
  const near: string[] = [];
  const failures: KnowledgeBaseError[] = [];
  for (const store of call.base.endpoints.stores) {
    try {
      const found = await documentOf(call, store, name);
      const first = found.chunks[0];
      if (first)
        return {
          store: store.name,
          project: first.project,
          document: first.document,
          sections: sectionsOf(found.chunks),
        };
      near.push(...found.near);
    } catch (error) {
      const failure = asKnowledgeBaseError(error);
      if (failure.kind === "aborted" || (isServerDown(failure) && call.needsServer)) throw failure;
      failures.push(failure);
    }
  }
  if (failures[0] && failures.length === call.base.endpoints.stores.length) throw failures[0];
  throw unknownDocument(name, near, failures);
}

/** Return a section by its anchor, its title in any letter case, or its id; throws when there is none. */
export function readSection(found: DocumentSections, wanted: string): Reading {
  const anchor = wanted.trim().replace(/^#/u, "");
  const title = anchor.toLowerCase();
  const index = [
    (each: SectionText): boolean => each.section === wanted || each.first.anchor === anchor,
    (each: SectionText): boolean => each.title.toLowerCase() === title,
  ].reduce((at, isWanted) => (at >= 0 ? at : found.sections.findIndex(isWanted)), -1);
  const section = found.sections[index];
  if (section) return { section, before: found.sections[index - 1], after: found.sections[index + 1] };
  const names = found.sections.slice(0, SHOWN_NAMES).map(({ first }) => line(first.anchor) || "(start)");
  throw new KnowledgeBaseError(
    "unknown_section",
    `${line(found.document)} has no section ${JSON.stringify(line(wanted))}; it has ${names.join(", ")}: call kb_doc for all of them.`,
  );
}

/** Return the parts of a section as one text; what a part repeats of the last one goes. */
export function joined(parts: readonly string[]): string {
  return parts.reduce((text, part, index) => {
    if (index === 0) return part;
    const repeated = overlap(text, part);
    return repeated > 0 ? text + part.slice(repeated) : `${text}\n\n${part}`;
  }, "");
}

/** Return the length of the longest end of one text that starts the other (Knuth, Morris, Pratt). */
function overlap(before: string, after: string): number {
  const borders: number[] = [0];
  let border = 0;
  for (let at = 1; at < after.length; at += 1) {
    border = extended(after, borders, border, after[at]);
    borders.push(border);
  }
  let matched = 0;
  for (const unit of before.slice(-after.length).split("")) {
    if (matched === after.length) matched = borders[matched - 1] ?? 0;
    matched = extended(after, borders, matched, unit);
  }
  return matched;
}

function extended(text: string, borders: readonly number[], length: number, unit: string | undefined): number {
  let matched = length;
  while (matched > 0 && text[matched] !== unit) matched = borders[matched - 1] ?? 0;
  return text[matched] === unit ? matched + 1 : 0;
}

async function documentOf(call: Call, store: Store, name: string): Promise<Found> {
  if (store.mode === "http") return { chunks: await chromaDocument(call, store, name), near: [] };
  const said = objectOf(await post(call, `document/${encodeURIComponent(store.name)}`, { document: name }), "answer");
  return {
    chunks: listOf(said["chunks"], "chunks").map(chunkOf),
    near: listOf(said["near"] ?? [], "near names").map(textOrEmpty),
  };
}

function sectionsOf(chunks: readonly Chunk[]): SectionText[] {
  const groups: Chunk[][] = [];
  for (const chunk of chunks) {
    const last = groups.at(-1);
    if (last?.[0] && sectionId(last[0].id) === sectionId(chunk.id)) last.push(chunk);
    else groups.push([chunk]);
  }
  return groups.flatMap(([first, ...others]) =>
    first
      ? [
          {
            section: sectionId(first.id),
            title: titleOf(first),
            first,
            text: joined([first, ...others].map(({ text }) => text)),
          },
        ]
      : [],
  );
}

function unknownDocument(
  name: string,
  near: readonly string[],
  failures: readonly KnowledgeBaseError[],
): KnowledgeBaseError {
  const names = [...new Set(near)].slice(0, SHOWN_NAMES).map((each) => line(each));
  const hint = names.length > 0 ? `did you mean ${names.join(", ")}?` : "find its name with search_knowledge_base.";
  const missing = failures.length > 0 ? ` (${failures.length} stores could not be asked)` : "";
  return new KnowledgeBaseError(
    "unknown_document",
    `No store holds the document ${JSON.stringify(line(name))}${missing}: ${hint}`,
  );
}
