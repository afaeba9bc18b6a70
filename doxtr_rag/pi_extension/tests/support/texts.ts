/** The vectors, and their texts, which may be given in parts. */
import { readFileSync } from "node:fs";

export type Part = string | { readonly repeat: string; readonly times: number };
export type Text = string | { readonly parts: readonly Part[] };

/** Return the cases of a vector file; read here, since a bundler's JSON knows no lone surrogates. */
export function vectors<Case>(name: string): readonly (Case & { readonly name: string })[] {
  const path = new URL(`../../contract/vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(path, "utf8")) as readonly (Case & { readonly name: string })[];
}

export function whole(text: Text): string {
  if (typeof text === "string") return text;
  return text.parts.map((part) => (typeof part === "string" ? part : part.repeat.repeat(part.times))).join("");
}
