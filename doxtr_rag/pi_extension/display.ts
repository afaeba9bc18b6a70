/** Stored text as it may be shown: nothing in it steers a terminal, names a secret or breaks an encoding. */
import { LIMITS } from "./contract.js";
import { scrub } from "./scrub.js";

const ESCAPES = /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\[[0-?]*[ -/]*[@-~]|.)?/gsu;
const CONTROLS = /(?![\t\n])\p{Cc}/gu;
const LONE_SURROGATES = /\p{Cs}/gu;
const WHITE_SPACE = /[ \t\n\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;

/** Return a text without escape sequences and control characters; tab and newline stay. */
export function withoutControls(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROLS, "").replace(LONE_SURROGATES, "\ufffd");
}

/** Return a text without control characters and secrets. */
export function clean(text: string): string {
  return scrub(withoutControls(text));
}

/** Return a clean text on one line, at most `limit` characters of it. */
export function line(text: string, limit: number = LIMITS.max_field_chars): string {
  return cut(clean(text).replace(WHITE_SPACE, " ").replace(/^ | $/gu, ""), limit);
}

/** Return at most `limit` code points, the last of them `…` when something is missing. */
export function cut(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const points = Array.from(text);
  return points.length <= limit ? text : `${points.slice(0, limit - 1).join("")}…`;
}

/** Return the number of code points. */
export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}
