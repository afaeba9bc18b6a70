/** What a model calls the tools with, read and judged. */
import { LIMITS } from "./contract.js";
import { withoutControls } from "./display.js";
import { KnowledgeBaseError } from "./errors.js";
import { isObject } from "./json.js";
import type { JsonObject } from "./json.js";
import type { SearchRequest } from "./search.js";

const MAX_NAME_CHARACTERS = 1_000;
const WHOLE_NUMBER = /^ *[+-]?[0-9]{1,15} *$/u;

/** Return arguments as the schema wants them: nothing given as null, numbers not written as text. */
export function prepared(given: unknown): unknown {
  if (!isObject(given)) return given;
  const entries = Object.entries(given).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key,
      key === "top_k" && typeof value === "string" && WHOLE_NUMBER.test(value) ? Number(value) : value,
    ]),
  );
}

/** Return what is searched for, which may be nothing; throws a sentence when it cannot be. */
export function searchRequest(given: unknown): SearchRequest {
  const fields = fieldsOf(given);
  const topK = fields["top_k"] ?? LIMITS.default_top_k;
  if (typeof topK !== "number" || !Number.isInteger(topK) || topK < 1 || topK > LIMITS.max_top_k) {
    throw new KnowledgeBaseError("bad_argument", `top_k must be a whole number from 1 to ${LIMITS.max_top_k}.`);
  }
  return {
    query: shortText(fields, "query", LIMITS.max_query_chars),
    topK,
    documents: fields["doc_filter"] === undefined ? "" : shortText(fields, "doc_filter", MAX_NAME_CHARACTERS),
  };
}

/** Return the document to outline; throws a sentence when none is named. */
export function documentName(given: unknown): string {
  const name = shortText(fieldsOf(given), "doc", MAX_NAME_CHARACTERS);
  if (name === "") {
    throw new KnowledgeBaseError("bad_argument", "doc is empty. Take a document's name from search_knowledge_base.");
  }
  return name;
}

/** Return the section to read. */
export function sectionName(given: unknown): string {
  return shortText(fieldsOf(given), "section", MAX_NAME_CHARACTERS);
}

/** Return an argument as text while a call is still being written; "" when it is not there yet. */
export function shownArgument(given: unknown, key: string): string {
  const value = isObject(given) ? given[key] : undefined;
  return typeof value === "string" ? value : "";
}

function fieldsOf(given: unknown): JsonObject {
  const fields = prepared(given);
  return isObject(fields) ? fields : {};
}

function shortText(fields: JsonObject, key: string, limit: number): string {
  const value = fields[key];
  if (typeof value !== "string") throw new KnowledgeBaseError("bad_argument", `${key} must be text.`);
  const text = withoutControls(value).trim();
  if (text.length > limit)
    throw new KnowledgeBaseError("bad_argument", `${key} has more than ${limit} characters: shorten it.`);
  return text;
}
