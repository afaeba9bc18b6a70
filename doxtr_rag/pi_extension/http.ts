/** JSON over HTTP with bounds: time, size, no redirects. */
import { Agent, request as sendPlain } from "node:http";
import type { IncomingMessage } from "node:http";
import { Agent as TlsAgent, request as sendOverTls } from "node:https";
import { within } from "./deadline.js";
import { KnowledgeBaseError } from "./errors.js";
import { parsed } from "./json.js";

export const CONNECT_MS = 5_000;
export const READ_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** Shorter than servers keep an idle connection, so that none is reused while they close it. */
export const IDLE_MS = 4_000;
const RESET: ReadonlySet<string | undefined> = new Set(["ECONNRESET", "EPIPE"]);

export type JsonRequest = {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly limitMs: number;
  readonly signal: AbortSignal | undefined;
  /** Which connections it may go over; those to anybody when there is none. */
  readonly connections?: Agent;
};

export type JsonAnswer = { readonly status: number; readonly body: unknown };
type RawAnswer = { readonly status: number; readonly text: string };
type Exchange = (request: JsonRequest, body: string | undefined, signal: AbortSignal) => Promise<RawAnswer>;

const plainConnections = new Agent({ keepAlive: true, timeout: IDLE_MS });
const tlsConnections = new TlsAgent({ keepAlive: true, timeout: IDLE_MS });

export function isLoopback(host: string): boolean {
  return ["127.0.0.1", "localhost", "::1", "[::1]"].includes(host);
}

/**
 * Send one request and return the status and the JSON of the answer.
 *
 * Loopback is reached without `fetch`: the agent routes that through the proxy of the environment, which must see
 * neither a token nor a private text.
 */
export async function requestJson(request: JsonRequest): Promise<JsonAnswer> {
  const { origin, hostname } = request.url;
  const exchange = isLoopback(hostname) ? overLoopback : overFetch;
  const body = request.body === undefined ? undefined : JSON.stringify(request.body);
  const answer = await within({ what: origin, limitMs: request.limitMs, signal: request.signal }, async (signal) => {
    try {
      return await exchange(request, body, signal);
    } catch (error) {
      if (error instanceof KnowledgeBaseError) throw error;
      throw new KnowledgeBaseError("unreachable", `Nothing answers at ${origin}${reasonOf(error)}.`);
    }
  });
  if (answer.status >= 300 && answer.status < 400) {
    throw new KnowledgeBaseError("bad_answer", `${origin} redirects elsewhere, which is not followed.`);
  }
  return { status: answer.status, body: parsed(answer.text) };
}

const overFetch: Exchange = async (request, body, signal) => {
  const response = await fetch(request.url, {
    method: request.method,
    headers: headersOf(request, body),
    redirect: "manual",
    signal,
    ...(body === undefined ? {} : { body }),
  });
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_ANSWER_BYTES) throw tooLarge(request.url);
    chunks.push(chunk);
  }
  return { status: response.status, text: Buffer.concat(chunks).toString("utf8") };
};

const overLoopback: Exchange = async (request, body, signal) => {
  // Ends, since a connection that fails is not kept and a new one is not stale.
  for (;;) {
    try {
      return await exchanged(request, body, signal);
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw error;
    }
  }
};

/** A kept connection that the server closed before it read the request. */
class StaleConnection extends Error {}

function exchanged(request: JsonRequest, body: string | undefined, signal: AbortSignal): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const { url, method } = request;
    const isPlain = url.protocol === "http:";
    const outgoing = (isPlain ? sendPlain : sendOverTls)({
      agent: request.connections ?? (isPlain ? plainConnections : tlsConnections),
      host: url.hostname === "[::1]" ? "::1" : "127.0.0.1",
      port: url.port,
      path: `${url.pathname}${url.search}`,
      method,
      headers: headersOf(request, body),
      signal,
    });
    outgoing.on("response", (incoming) => readAll(incoming, url).then(resolve, reject));
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      const isStale = outgoing.reusedSocket && RESET.has(error.code) && !signal.aborted;
      reject(isStale ? new StaleConnection() : error);
    });
    outgoing.end(body);
  });
}

async function readAll(incoming: IncomingMessage, url: URL): Promise<RawAnswer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) throw tooLarge(url);
    chunks.push(chunk);
  }
  return { status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") };
}

function headersOf(request: JsonRequest, body: string | undefined): Record<string, string> {
  const type: Record<string, string> =
    body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(body)) };
  return { ...request.headers, Accept: "application/json", ...type };
}

function tooLarge(url: URL): KnowledgeBaseError {
  return new KnowledgeBaseError("bad_answer", `${url.origin} sent more than ${MAX_ANSWER_BYTES / 1024 / 1024} MiB.`);
}

function reasonOf(error: unknown): string {
  const cause: unknown = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? ` (${code})` : "";
}
