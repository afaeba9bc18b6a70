/** What `/kb status` and `/kb sources` say. */
import { endpointsPath, knowledgeBaseOf } from "./addressing.js";
import { chromaCount } from "./chroma.js";
import type { Call, Client } from "./client.js";
import { line } from "./display.js";
import type { Store } from "./endpoints.js";
import { asKnowledgeBaseError, KnowledgeBaseError } from "./errors.js";
import { isObject, objectOf, textOrEmpty } from "./json.js";
import type { JsonObject } from "./json.js";
import { post } from "./stores.js";

const HINTS: Readonly<Record<string, string>> = {
  index_not_built: "run sphinx-build",
  index_dirty: "run doxtr-rag retry",
  index_corrupt: "run doxtr-rag rebuild",
  identity_mismatch: "run doxtr-rag rebuild",
  weights_missing: "run doxtr-rag fetch-weights",
  weights_corrupt: "run doxtr-rag fetch-weights --force",
  disk_full: "free some space, then run doxtr-rag retry",
  store_locked: "wait for the other process, or end it",
};
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Return the status line of a folder, undefined when it belongs to no knowledge base. */
export function statusLine(client: Client, cwd: string): string | undefined {
  const settings = client.settings();
  if (endpointsPath(cwd, settings) === undefined) return undefined;
  return countLine(knowledgeBaseOf(cwd, settings).endpoints.stores.length, 0);
}

export function countLine(stores: number, failed: number): string {
  return failed === 0 ? `kb: ${stores} stores` : `kb: ${stores - failed} of ${stores} stores`;
}

/** Return how the knowledge base of a folder is; starts nothing. */
export async function statusText(client: Client, cwd: string, signal: AbortSignal | undefined): Promise<string> {
  return client.call(cwd, signal, { mayLaunch: false }, async (call) => {
    const { path, endpoints } = call.base;
    const health = await healthOf(call);
    const stores = await Promise.all(
      endpoints.stores.map(async (store) => `${store.name}: ${await stateOf(call, store, health)}`),
    );
    return [
      `Knowledge base of ${line(endpoints.project)} (${path})`,
      `server: ${serverLine(health)}`,
      `model: ${modelLine(call, health)}`,
      ...stores,
    ].join("\n");
  });
}

/** Return where the stores of a folder's knowledge base lie and what is in them. */
export async function sourcesText(client: Client, cwd: string, signal: AbortSignal | undefined): Promise<string> {
  return client.call(cwd, signal, { mayLaunch: false }, async (call) => {
    const { path, endpoints } = call.base;
    const health = await healthOf(call);
    const stores = endpoints.stores.map((store) => {
      const { documents } = recordOf(health, store);
      const count = typeof documents === "number" ? `, ${documents} documents` : "";
      return `${store.name}: ${store.scope}, ${placeOf(store)}, collection ${store.collection} of ${store.database}${count}`;
    });
    return [`Sources of ${line(endpoints.project)} (${path})`, ...stores].join("\n");
  });
}

type Health = JsonObject | KnowledgeBaseError;

async function healthOf(call: Call): Promise<Health> {
  try {
    return objectOf(await post(call, "health", undefined), "health");
  } catch (error) {
    const failure = asKnowledgeBaseError(error);
    if (failure.kind === "aborted") throw failure;
    return failure;
  }
}

function serverLine(health: Health): string {
  if (health instanceof KnowledgeBaseError) {
    return health.kind === "server_down"
      ? "not running; the next search starts it, or run doxtr-rag serve --detach"
      : line(health.message);
  }
  const { status, version, pid } = health;
  return `${line(textOrEmpty(status)) || "unknown"}, version ${line(textOrEmpty(version))}, process ${String(pid)}`;
}

function modelLine(call: Call, health: Health): string {
  const { model, dimension } = call.base.endpoints.embedding;
  const record = !(health instanceof KnowledgeBaseError) && isObject(health["model"]) ? health["model"] : {};
  const state = line(textOrEmpty(record["state"]));
  const detail = line(textOrEmpty(record["detail"]));
  return [`${line(model)} (${dimension} dimensions)`, state, detail].filter((part) => part !== "").join(", ");
}

async function stateOf(call: Call, store: Store, health: Health): Promise<string> {
  if (store.mode === "http") return chromaState(call, store);
  if (health instanceof KnowledgeBaseError) return health.kind === "server_down" ? "waits for the server" : "unknown";
  const record = recordOf(health, store);
  const state = line(textOrEmpty(record["state"])) || "unknown";
  const counts = [
    typeof record["documents"] === "number" ? `${record["documents"]} documents` : "",
    typeof record["chunks"] === "number" ? `${record["chunks"]} chunks` : "",
    ageOf(textOrEmpty(record["updated"])),
    state === "ready" ? "" : line(textOrEmpty(record["detail"])),
  ].filter((part) => part !== "");
  const hint = HINTS[state];
  return `${[state, store.scope, ...counts].join(", ")}${hint === undefined ? "" : `: ${hint}`}`;
}

async function chromaState(call: Call, store: Store): Promise<string> {
  try {
    return `ready, ${store.scope}, ${await chromaCount(call, store)} chunks, ${placeOf(store)}`;
  } catch (error) {
    const failure = asKnowledgeBaseError(error);
    if (failure.kind === "aborted") throw failure;
    const hint = HINTS[failure.kind];
    return `${failure.kind}, ${store.scope}, ${line(failure.message)}${hint === undefined || failure.message.includes(hint) ? "" : `: ${hint}`}`;
  }
}

function recordOf(health: Health, store: Store): JsonObject {
  const stores = health instanceof KnowledgeBaseError ? undefined : health["stores"];
  const record = isObject(stores) ? stores[store.name] : undefined;
  return isObject(record) ? record : {};
}

function placeOf({ mode, host, port, ssl }: Store): string {
  return mode === "embedded" ? `served on port ${port}` : `Chroma at ${ssl ? "https" : "http"}://${host}:${port}`;
}

function ageOf(updated: string): string {
  const age = Date.now() - Date.parse(updated);
  if (!Number.isFinite(age)) return "";
  if (age < HOUR_MS) return `${Math.max(Math.round(age / MINUTE_MS), 0)} min old`;
  return age < 2 * DAY_MS ? `${Math.round(age / HOUR_MS)} h old` : `${Math.round(age / DAY_MS)} days old`;
}
