/** Passages added to each turn without being asked for; off unless the environment turns it on. */
import { searchRequest } from "./arguments.js";
import type { Client } from "./client.js";
import { RENDERING } from "./contract.js";
import { within } from "./deadline.js";
import { line } from "./display.js";
import { asKnowledgeBaseError } from "./errors.js";
import type { AddedMessage } from "./pi-types.js";
import { paragraphs, quotedMarkdown, sourceOf } from "./render.js";
import { search } from "./search.js";
import type { Hit } from "./chunks.js";

const HITS = 3;
const LIMIT_MS = 3_000;
const MAX_PROMPT = 2_000;
const QUOTE_CAP = { chars: 300, lines: 10 };

/** Adds short quotes to a turn, and remembers how often that worked. */
export class AutoContext {
  #turns = 0;
  #failures = 0;
  #lastFailure = "";

  /** Return what is added to a turn; undefined when nothing was found or anything failed. */
  async messageFor(
    client: Client,
    cwd: string,
    prompt: string,
    signal: AbortSignal | undefined,
  ): Promise<AddedMessage | undefined> {
    this.#turns += 1;
    try {
      const request = searchRequest({ query: prompt.slice(0, MAX_PROMPT), top_k: HITS });
      const { hits } = await within({ what: "the knowledge base", limitMs: LIMIT_MS, signal }, (limited) =>
        search(client, cwd, request, { mayLaunch: false, signal: limited }),
      );
      if (hits.length === 0) return undefined;
      const content = paragraphs([RENDERING.preamble, ...hits.map(quoted)]);
      return { message: { customType: "chroma-rag", content, display: false } };
    } catch (error) {
      this.#failures += 1;
      this.#lastFailure = line(asKnowledgeBaseError(error).message);
      return undefined;
    }
  }

  /** Say how it went so far. */
  describe(isOn: boolean): string {
    if (!isOn) return "automatic context: off";
    const failures = this.#failures === 0 ? "" : `, ${this.#failures} failed (last: ${this.#lastFailure})`;
    return `automatic context: on, ${this.#turns} turns${failures}`;
  }
}

function quoted(hit: Hit): string {
  return [`Source: ${sourceOf(hit)}`, `Cite as: ${line(hit.citation)}`, ...quotedMarkdown(hit.quote, QUOTE_CAP)].join(
    "\n",
  );
}
