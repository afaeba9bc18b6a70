/** Receipts: how a passage is cited, and the verbatim words that show it. */
import { LIMITS } from "./contract.js";

const SPACE = "\\t-\\r\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${SPACE}]+`, "gu");
const LINES_WITH_TEXT = new RegExp(`[^\\n]*[^${SPACE}][^\\n]*`, "gu");
const WORDS = /[\p{L}\p{N}_]+/gu;

export type Cited = { readonly breadcrumb: readonly string[]; readonly document: string };

/** Return `[Title §Heading]`; brackets in titles cannot close it early. */
export function citation({ breadcrumb, document }: Cited): string {
  const titles = breadcrumb
    .slice(-2)
    .map((title) => title.replace(SPACES, " ").replaceAll("[", "(").replaceAll("]", ")"));
  return `[${titles.join(" §") || document}]`;
}

/** Return the lines of a text that share most words with a query, verbatim, at most 300 characters. */
export function quote(text: string, query: string): string {
  const wanted = words(query);
  const lines = [...text.matchAll(LINES_WITH_TEXT)].map((match) => ({
    start: match.index,
    end: match.index + match[0].length,
    shared: [...words(match[0])].filter((word) => wanted.has(word)).length,
  }));
  const [only, ...others] = lines;
  if (!only) return "";
  const first = others.reduce((best, each) => (each.shared > best.shared ? each : best), only);
  let end = first.end;
  for (const following of lines.slice(lines.indexOf(first) + 1)) {
    if (Array.from(text.slice(first.start, following.end)).length > LIMITS.max_quote) break;
    end = following.end;
  }
  return shortened(Array.from(text.slice(first.start, end)));
}

function words(text: string): Set<string> {
  return new Set(text.match(WORDS)?.map((word) => word.toLowerCase()));
}

function shortened(points: readonly string[]): string {
  if (points.length <= LIMITS.max_quote) return points.join("");
  const kept = points.slice(0, LIMITS.max_quote);
  const space = kept.lastIndexOf(" ");
  return kept.slice(0, space > LIMITS.max_quote / 2 ? space : LIMITS.max_quote).join("");
}
