/** Secrets taken out of text; the patterns are shared with Python. */
import { SCRUB_RULES } from "./contract.js";

type Rule = { readonly expression: RegExp; readonly replacement: string };

let compiled: readonly Rule[] | undefined;

/** Return a text with every secret replaced by `[scrubbed:<rule>]`; idempotent. */
export function scrub(text: string): string {
  compiled ??= SCRUB_RULES.map(({ pattern, replacement, ignore_case }) => ({
    expression: new RegExp(pattern, ignore_case ? "giu" : "gu"),
    replacement,
  }));
  return compiled.reduce((scrubbed, rule) => scrubbed.replace(rule.expression, rule.replacement), text);
}
