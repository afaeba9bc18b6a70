/** The data files that Python reads as well. */
import metadata from "./contract/metadata.json" with { type: "json" };
import scrubbing from "./contract/scrub.json" with { type: "json" };

export const LIMITS = metadata.limits;
export const FUSION = metadata.fusion;
export const IDENTITY = metadata.identity;
export const RENDERING = metadata.rendering;

export type ScrubRule = {
  readonly name: string;
  readonly pattern: string;
  readonly replacement: string;
  readonly ignore_case?: boolean;
};

export const SCRUB_RULES: readonly ScrubRule[] = scrubbing.rules;
