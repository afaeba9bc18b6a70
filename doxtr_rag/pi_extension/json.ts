/** Values of unknown JSON, read as what they should be. */
import { KnowledgeBaseError } from "./errors.js";

export type JsonObject = { readonly [key: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectOf(value: unknown, what: string): JsonObject {
  if (!isObject(value)) throw unexpected(what, "an object");
  return value;
}

export function listOf(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw unexpected(what, "a list");
  return value;
}

export function textOf(value: unknown, what: string): string {
  if (typeof value !== "string") throw unexpected(what, "text");
  return value;
}

/** Return a text, or "" for anything else. */
export function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Return the JSON that a text holds, undefined when it holds none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function unexpected(what: string, expected: string): KnowledgeBaseError {
  return new KnowledgeBaseError(
    "bad_answer",
    `The answer's ${what} is not ${expected}: update doxtr-rag, then run doxtr-rag install-agent pi.`,
  );
}
