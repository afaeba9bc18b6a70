/** A project folder with a knowledge base, and the server of the wire contract for it. */
import { createHmac, randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../client.js";
import type { Environment } from "../../settings.js";
import { JsonServer } from "./json-server.js";
import type { Asked, Reply, Responder } from "./json-server.js";

export const DIMENSION = 3;
export const FINGERPRINT = "0f".repeat(32);
export const KB_ID = "kb-under-test";

export type StoredChunk = { readonly id: string; readonly text: string; readonly [field: string]: unknown };

/** Return a chunk as the wire has it. */
export function wireChunk(id: string, text: string, changes: Readonly<Record<string, unknown>> = {}): StoredChunk {
  const [path = "", anchor = ""] = id.split("~")[0]?.split("#") ?? [];
  const [project = "", ...document] = path.split("/");
  return {
    id,
    project,
    document: document.join("/"),
    anchor,
    text,
    breadcrumb: ["Guide", anchor || "Start"],
    url: `${document.join("/")}.html`,
    source_file: `source/${document.join("/")}.rst`,
    locator: null,
    scope: "SHARED_ORG",
    text_hash: `hash of ${text}`,
    metadata: {},
    page: null,
    ...changes,
  };
}

/** What the server serves; tests change it. */
export type Served = {
  stores: Record<string, readonly StoredChunk[] | Reply>;
  embed: Reply;
  /** Left out of the first answer, so that they are asked for by id. */
  withheld: readonly string[];
};

export class Project {
  readonly root = mkdtempSync(join(tmpdir(), "kb-"));
  readonly token = randomBytes(32).toString("hex");
  readonly served: Served = { stores: { shared: [], private: [] }, embed: { body: embedded() }, withheld: [] };
  readonly servers: JsonServer[] = [];
  endpoints: Record<string, unknown>;

  constructor() {
    mkdirSync(join(this.root, ".doxtr"), { mode: 0o700 });
    const store = {
      mode: "embedded",
      host: "127.0.0.1",
      ssl: false,
      tenant: "default_tenant",
      collection: "m_3",
      header_keys: [],
    };
    this.endpoints = {
      version: 1,
      kb_id: KB_ID,
      project: "guide",
      embedding: { model: "tiny", dimension: DIMENSION, fingerprint: FINGERPRINT, embed_url: null },
      shared: { ...store, port: 8787, database: "doxtr_shared" },
      private: { ...store, port: 8788, database: "doxtr_private" },
      search_url: null,
      token_file: null,
    };
  }

  get path(): string {
    return join(this.root, ".doxtr", "endpoints.json");
  }

  /** Start the server and publish it. */
  async serve(respond: Responder = this.respond): Promise<JsonServer> {
    const server = await JsonServer.start((asked) => respond(asked));
    this.servers.push(server);
    this.publish(server.port);
    return server;
  }

  publish(port: number | null): void {
    const origin = port === null ? null : `http://127.0.0.1:${port}`;
    this.change({
      embedding: { ...(this.endpoints["embedding"] as object), embed_url: origin && `${origin}/embed` },
      search_url: origin,
      token_file: origin && "server.token",
    });
    this.write("server.token", this.token);
  }

  change(changes: Record<string, unknown>): void {
    this.endpoints = { ...this.endpoints, ...changes };
    this.write("endpoints.json", JSON.stringify(this.endpoints));
  }

  changeStore(name: "shared" | "private", changes: Record<string, unknown>): void {
    this.change({ [name]: { ...(this.endpoints[name] as object), ...changes } });
  }

  write(name: string, text: string, mode = 0o600): void {
    const path = join(this.root, ".doxtr", name);
    writeFileSync(path, text, { mode });
    chmodSync(path, mode);
  }

  client(environment: Environment = {}): Client {
    return new Client({ PATH: "/nowhere", ...environment });
  }

  async close(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
    rmSync(this.root, { recursive: true });
  }

  /** Answer as wire.md says. */
  readonly respond = (asked: Asked): Reply => {
    const port = Number(String(asked.headers["host"]).split(":")[1]);
    if (asked.path === "/identity") return { body: this.identity(asked.search.get("nonce") ?? "", port) };
    if (asked.headers["authorization"] !== `Bearer ${this.token}`)
      return { status: 401, body: { error: "unauthorized", message: "no" } };
    const [, verb, name = ""] = asked.path.split("/");
    if (verb === "embed") return this.served.embed;
    if (verb === "health") return { body: this.health() };
    const store = this.served.stores[name];
    if (!store) return { status: 404, body: { error: "unknown_store", message: `no store ${name}` } };
    if (!isChunks(store)) return store;
    return {
      body:
        verb === "search"
          ? this.search(name, store)
          : verb === "chunks"
            ? this.chunks(asked, store)
            : this.document(asked, store),
    };
  };

  identity(nonce: string, port: number, token: string = this.token): unknown {
    const proof = createHmac("sha256", token).update(`doxtr-rag:1:${KB_ID}:${port}:${nonce}`).digest("hex");
    return { kb_id: KB_ID, version: "0.1.0", proof };
  }

  health(): unknown {
    const states = Object.entries(this.served.stores).map(([name, store]) => [
      name,
      isChunks(store)
        ? {
            state: "ready",
            scope: "SHARED_ORG",
            documents: 1,
            chunks: store.length,
            updated: new Date().toISOString(),
            detail: "",
          }
        : {
            state: "index_not_built",
            scope: "LOCAL_PRIVATE",
            documents: 0,
            chunks: 0,
            updated: null,
            detail: "never filled",
          },
    ]);
    return {
      status: "ready",
      kb_id: KB_ID,
      version: "0.1.0",
      pid: 42,
      model: { name: "tiny", state: "ready", detail: "" },
      stores: Object.fromEntries(states),
    };
  }

  private search(name: string, chunks: readonly StoredChunk[]): unknown {
    const hits = chunks.map((chunk, index) => [chunk.id, chunk["text_hash"], 1 - index / 100]);
    const sent = chunks.filter(({ id }) => !this.served.withheld.includes(id));
    return {
      store: name,
      scope: "SHARED_ORG",
      fingerprint: FINGERPRINT,
      pools: [{ pool: "dense", hits }],
      chunks: Object.fromEntries(sent.map((chunk) => [chunk.id, chunk])),
      degraded: [],
    };
  }

  private chunks(asked: Asked, chunks: readonly StoredChunk[]): unknown {
    const { ids } = asked.body as { ids: string[] };
    return {
      chunks: Object.fromEntries(chunks.filter(({ id }) => ids.includes(id)).map((chunk) => [chunk.id, chunk])),
    };
  }

  private document(asked: Asked, chunks: readonly StoredChunk[]): unknown {
    const { document } = asked.body as { document: string };
    const found = chunks.filter((chunk) => chunk["document"] === document);
    return { chunks: found, near: found.length > 0 ? [] : [...new Set(chunks.map((chunk) => chunk["document"]))] };
  }
}

/** Return the answer of /embed for one text. */
export function embedded(
  changes: Readonly<Record<string, unknown>> = {},
  vector: readonly number[] = [1, 0, 0],
): unknown {
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((value, index) => bytes.writeFloatLE(value, index * 4));
  const embedding = bytes.toString("base64");
  return {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding }],
    embedding,
    model: "tiny",
    dimension: DIMENSION,
    fingerprint: FINGERPRINT,
    ...changes,
  };
}

function isChunks(store: readonly StoredChunk[] | Reply): store is readonly StoredChunk[] {
  return Array.isArray(store);
}
