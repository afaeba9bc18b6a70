/** What went wrong: a sentence for people, a word for programs. */
export class KnowledgeBaseError extends Error {
  /** `aborted`, `timeout`, `unreachable`, `server_down`, a reason the server names, … */
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.name = "KnowledgeBaseError";
    this.kind = kind;
  }
}

/** Return an error of ours as it is, any other under a kind that says that nobody foresaw it. */
export function asKnowledgeBaseError(error: unknown): KnowledgeBaseError {
  if (error instanceof KnowledgeBaseError) return error;
  return new KnowledgeBaseError("unexpected", error instanceof Error ? error.message : String(error));
}

/** Return the error of a call that its caller gave up. */
export function abortedError(): KnowledgeBaseError {
  return new KnowledgeBaseError("aborted", "The knowledge base call was aborted.");
}

/** Return whether an error says that the project's own server does not run. */
export function isServerDown(error: unknown): error is KnowledgeBaseError {
  return error instanceof KnowledgeBaseError && error.kind === "server_down";
}

/** Return a sentence without its full stop, to stand inside another one. */
export function unended(sentence: string): string {
  return sentence.replace(/\.$/u, "");
}
