/** The knowledge base's own server: it proves itself first, then it gets the token. */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { KnowledgeBase } from "./addressing.js";
import { IDENTITY } from "./contract.js";
import { line } from "./display.js";
import { KnowledgeBaseError } from "./errors.js";
import { CONNECT_MS, READ_MS, requestJson } from "./http.js";
import type { JsonAnswer } from "./http.js";
import { isObject, textOrEmpty } from "./json.js";

export type ServerRequest = {
  /** null when no server published one. */
  readonly url: URL | null;
  readonly body?: unknown;
  readonly limitMs?: number;
  readonly signal: AbortSignal | undefined;
};

/** Asks the server of a knowledge base, and remembers which addresses proved that they are it. */
export class ServerClient {
  readonly #proved = new Set<string>();

  /** Return the answer; throws `server_down` when no server of this knowledge base is there. */
  async request(base: KnowledgeBase, request: ServerRequest): Promise<unknown> {
    const { token } = base;
    const { url } = request;
    if (token === null || url === null) throw serverDown(base, "it does not run");
    const key = `${url.host} ${base.endpoints.kbId} ${token}`;
    if (!this.#proved.has(key)) await prove(base, token, url, request.signal);
    this.#proved.add(key);
    try {
      const answer = await authorised(token, url, request);
      if (answer.status === 401) throw serverDown(base, `${url.host} refuses its token`);
      return successful(answer, url);
    } catch (error) {
      if (isConnectionFailure(error)) this.#proved.delete(key);
      if (error instanceof KnowledgeBaseError && error.kind === "unreachable") throw serverDown(base, error.message);
      throw error;
    }
  }

  /** Ask for a proof again at the next request. */
  forget(): void {
    this.#proved.clear();
  }
}

/** Return the body of an answer; throws under the kind that the server names when it is an error. */
export function successful({ status, body }: JsonAnswer, url: URL): unknown {
  if (status >= 200 && status < 300 && body !== undefined) return body;
  const said = isObject(body) ? body : {};
  const kind = line(textOrEmpty(said["error"])) || "bad_answer";
  throw new KnowledgeBaseError(
    kind,
    line(textOrEmpty(said["message"])) || `${url.origin} answered with status ${status}.`,
  );
}

/** Return the proof that a server gives of itself. */
export function proofOf(token: string, kbId: string, port: string, nonce: string): string {
  const values: Readonly<Record<string, string>> = { kb_id: kbId, port, nonce };
  const message = IDENTITY.message.replace(/\{(\w+)\}/gu, (_, name: string) => values[name] ?? "");
  return createHmac("sha256", token).update(message).digest("hex");
}

async function prove(base: KnowledgeBase, token: string, url: URL, signal: AbortSignal | undefined): Promise<void> {
  const nonce = randomBytes(IDENTITY.nonce_hex_digits / 2).toString("hex");
  const identity = new URL(`/identity?nonce=${nonce}`, url);
  const answer = await requestJson({ method: "GET", url: identity, limitMs: CONNECT_MS, signal }).catch(
    (error: unknown) => {
      if (error instanceof KnowledgeBaseError && error.kind !== "aborted") throw serverDown(base, error.message);
      throw error;
    },
  );
  const said = isObject(answer.body) ? answer.body : {};
  const expected = proofOf(token, base.endpoints.kbId, portOf(url), nonce);
  if (said["kb_id"] !== base.endpoints.kbId || !isEqual(textOrEmpty(said["proof"]), expected)) {
    throw serverDown(base, `another program answers at ${url.host}`);
  }
}

function authorised(token: string, url: URL, request: ServerRequest): Promise<JsonAnswer> {
  return requestJson({
    method: request.body === undefined ? "GET" : "POST",
    url,
    headers: { Authorization: `Bearer ${token}` },
    limitMs: request.limitMs ?? READ_MS,
    signal: request.signal,
    ...(request.body === undefined ? {} : { body: request.body }),
  });
}

function isConnectionFailure(error: unknown): boolean {
  return error instanceof KnowledgeBaseError && ["unreachable", "timeout", "server_down"].includes(error.kind);
}

function serverDown(base: KnowledgeBase, why: string): KnowledgeBaseError {
  const reason = why.replace(/\.$/u, "");
  return new KnowledgeBaseError(
    "server_down",
    `The knowledge-base server of ${base.root} is not there (${reason}): run doxtr-rag serve --detach.`,
  );
}

function portOf(url: URL): string {
  return url.port === "" ? "80" : url.port;
}

function isEqual(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}
