/** The knowledge base's own server: it proves itself first, then it gets the token. */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Agent } from "node:http";
import type { KnowledgeBase } from "./addressing.js";
import { ProvenConnections } from "./connections.js";
import { IDENTITY } from "./contract.js";
import { line } from "./display.js";
import { KnowledgeBaseError, unended } from "./errors.js";
import { CONNECT_MS, READ_MS, requestJson } from "./http.js";
import type { JsonAnswer } from "./http.js";
import { isObject, textOrEmpty } from "./json.js";
import { isServerAlive } from "./server-lock.js";

export type ServerRequest = {
  /** null when no server published one. */
  readonly url: URL | null;
  readonly body?: unknown;
  readonly limitMs?: number;
  readonly signal: AbortSignal | undefined;
};

/** Asks the server of a knowledge base, over connections that proved to lead to it. */
export class ServerClient {
  readonly #connections = new Map<string, ProvenConnections>();

  /** Return the answer; throws `server_down` when no server of this knowledge base is there. */
  async request(base: KnowledgeBase, request: ServerRequest): Promise<unknown> {
    const { token } = base;
    const { url } = request;
    if (token === null || url === null) throw serverDown(base, "it does not run");
    try {
      const answer = await authorised(token, url, request, this.#connectionsTo(base, token, url));
      if (answer.status === 401) throw serverDown(base, `${url.host} refuses its token`);
      return successful(answer, url);
    } catch (error) {
      throw toldOf(base, error);
    }
  }

  /** Ask for a proof at the next request; connections in use end with what they carry. */
  forget(): void {
    this.#connections.clear();
  }

  #connectionsTo(base: KnowledgeBase, token: string, url: URL): ProvenConnections {
    const key = JSON.stringify([base.root, base.endpoints.kbId, url.host, token]);
    const kept =
      this.#connections.get(key) ?? new ProvenConnections((connection) => prove(base, token, url, connection));
    this.#connections.set(key, kept);
    return kept;
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

async function prove(base: KnowledgeBase, token: string, url: URL, connections: Agent): Promise<void> {
  const nonce = randomBytes(IDENTITY.nonce_hex_digits / 2).toString("hex");
  const identity = new URL(`/identity?nonce=${nonce}`, url);
  const answer = await requestJson({
    method: "GET",
    url: identity,
    limitMs: CONNECT_MS,
    signal: undefined,
    connections,
  }).catch((error: unknown) => {
    const isHung = error instanceof KnowledgeBaseError && error.kind === "timeout" && isServerAlive(base.path);
    throw error instanceof KnowledgeBaseError && !isHung ? serverDown(base, error.message) : error;
  });
  const said = isObject(answer.body) ? answer.body : {};
  const expected = proofOf(token, base.endpoints.kbId, portOf(url), nonce);
  if (said["kb_id"] !== base.endpoints.kbId || !isEqual(textOrEmpty(said["proof"]), expected)) {
    throw serverDown(base, `another program answers at ${url.host}`);
  }
}

function authorised(token: string, url: URL, request: ServerRequest, connections: Agent): Promise<JsonAnswer> {
  return requestJson({
    method: request.body === undefined ? "GET" : "POST",
    url,
    headers: { Authorization: `Bearer ${token}` },
    limitMs: request.limitMs ?? READ_MS,
    signal: request.signal,
    connections,
    ...(request.body === undefined ? {} : { body: request.body }),
  });
}

/** Return an error of a connection as one of the server that should be there. */
function toldOf(base: KnowledgeBase, error: unknown): unknown {
  if (!(error instanceof KnowledgeBaseError)) return error;
  if (error.kind === "unreachable") return serverDown(base, error.message);
  return error.kind === "timeout" ? silent(base, error.message) : error;
}

function serverDown(base: KnowledgeBase, why: string): KnowledgeBaseError {
  return new KnowledgeBaseError(
    "server_down",
    `The knowledge-base server of ${base.root} is not there (${unended(why)}): run doxtr-rag serve --detach.`,
  );
}

/** Return the error of a server that runs, so that no second one can be started. */
function silent(base: KnowledgeBase, why: string): KnowledgeBaseError {
  return new KnowledgeBaseError(
    "timeout",
    `The knowledge-base server of ${base.root} does not answer (${unended(why)}): run doxtr-rag serve --stop, then search again.`,
  );
}

function portOf(url: URL): string {
  return url.port === "" ? "80" : url.port;
}

function isEqual(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}
