/** An answer as an agent reads it: cited Markdown, marked as content, capped (contract/README.md has the rules). */
import type { Hit, Locator } from "./chunks.js";
import { LIMITS, RENDERING } from "./contract.js";
import { clean, lengthOf, line } from "./display.js";

export type Degradation = { readonly code: string; readonly detail: string };
export type RenderedHit = Omit<Hit, "quote" | "score">;
export type Cap = { readonly chars: number; readonly lines: number };

const CHUNK_CAP: Cap = { chars: LIMITS.max_chunk_chars, lines: LIMITS.max_chunk_lines };

/** Return hits and degradations as one Markdown text. */
export function answerMarkdown(hits: readonly RenderedHit[], degraded: readonly Degradation[]): string {
  const notes = degraded
    .slice(0, LIMITS.max_notes)
    .map(({ code, detail }) => `Note: ${line(detail)} (${line(code)})`)
    .join("\n");
  if (hits.length === 0) return paragraphs([RENDERING.nothing_found, notes]);
  const blocks = hits.map((hit, index) => hitMarkdown(hit, index + 1));
  const composed = (kept: number): string => {
    const missing = blocks.length - kept;
    const gap = missing > 0 ? RENDERING.cut_hits.replace("{count}", String(missing)) : "";
    return paragraphs([RENDERING.preamble, ...blocks.slice(0, kept), gap, notes]);
  };
  let kept = blocks.length;
  while (kept > 0 && !isWithinCaps(composed(kept))) kept -= 1;
  return composed(kept);
}

/** Return the lines that say what a hit is and where it comes from. */
export function headMarkdown(hit: RenderedHit, heading: string): string[] {
  const breadcrumb = line(hit.breadcrumb.join(" > "));
  return [
    `${heading}${line(hit.title) || line(hit.document)}`,
    ...(breadcrumb === "" ? [] : [breadcrumb]),
    `Source: ${sourceOf(hit)}`,
    `Cite as: ${line(hit.citation)}`,
    `Scope: ${line(hit.scope)}, store: ${line(hit.store)}, document: ${line(hit.document)}`,
  ];
}

/** Return a text as quoted lines that it cannot break out of, and what was cut. */
export function quotedMarkdown(text: string, cap: Cap): string[] {
  const whole = clean(text)
    .replace(/[\u2028\u2029]/gu, "\n")
    .replace(/^\n+/u, "");
  const points = Array.from(whole.slice(0, endOfText(whole)));
  const lines = points.slice(0, cap.chars).join("").split("\n").slice(0, cap.lines);
  const missing = points.length - lengthOf(lines.join("\n"));
  const quoted = lines.map((each) => (each === "" ? ">" : `> ${each}`));
  return missing > 0 ? [...quoted, RENDERING.cut_chunk.replace("{count}", String(missing))] : quoted;
}

/** Join the paragraphs that are not empty. */
export function paragraphs(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("\n\n");
}

/** Return whether a text is within what a tool may hand to a model. */
export function isWithinCaps(text: string): boolean {
  return lengthOf(text) <= LIMITS.max_chars && text.split("\n").length <= LIMITS.max_lines;
}

/** Return where a hit comes from: its address, else its document and the place in it. */
export function sourceOf({ url, document, locator }: Pick<RenderedHit, "url" | "document" | "locator">): string {
  if (url !== "" && !url.startsWith("#")) return line(url, LIMITS.max_url_chars);
  return `${line(document)}${placeOf(locator)}`;
}

/** Return where the newlines at the end begin; a loop, since `\\n+$` takes quadratic time. */
function endOfText(text: string): number {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= 1;
  return end;
}

function hitMarkdown(hit: RenderedHit, number: number): string {
  return [...headMarkdown(hit, `### ${number}. `), "", ...quotedMarkdown(hit.text, CHUNK_CAP)].join("\n");
}

function placeOf(locator: Locator | null): string {
  if (locator === null || String(locator.value) === "") return "";
  const end = locator.end === null ? "" : `-${line(String(locator.end))}`;
  return `, ${line(locator.kind)} ${line(String(locator.value))}${end}`;
}
