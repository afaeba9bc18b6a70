/** The shape of endpoints.json, checked field by field (contract/endpoints.schema.json says the same). */
import { isObject } from "./json.js";
import type { JsonObject } from "./json.js";

export type Store = {
  readonly name: string;
  readonly scope: string;
  readonly mode: "embedded" | "http";
  readonly host: string;
  readonly port: number;
  readonly ssl: boolean;
  readonly tenant: string;
  readonly database: string;
  readonly collection: string;
  readonly headerKeys: readonly string[];
};

export type Embedding = {
  readonly model: string;
  readonly dimension: number;
  readonly fingerprint: string;
  readonly embedUrl: URL | null;
};

export type Endpoints = {
  readonly kbId: string;
  readonly project: string;
  readonly embedding: Embedding;
  readonly stores: readonly Store[];
  readonly searchUrl: URL | null;
  readonly tokenFile: string | null;
  /** Device and number of the lock file that the server holds; null when it did not say. */
  readonly lock: string | null;
};

/** A field that is not what it should be; `at` is its path. */
export class EndpointsError extends Error {
  readonly at: string;

  constructor(at: string, expected: string) {
    super(at === "" ? `expected ${expected}` : `${at}: expected ${expected}`);
    this.at = at;
  }
}

/** The scope of pages that are not private. */
export const SHARED_SCOPE = "SHARED_ORG";

const UNFIT = /[\p{Cc}\p{Cs}]/u;
const NAME = /^.{1,512}$/su;
const MOUNT_NAME = /^[^./\\][^/\\]{0,99}$/u;
const COLLECTION = /^[A-Za-z0-9._-]{1,512}$/u;
const HOST = /^[A-Za-z0-9._:-]{1,253}$/u;
const FINGERPRINT = /^[0-9a-f]{16,128}$/u;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/u;
const PORT = "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
const LOOPBACK_URL = new RegExp(`^http://(?:127\\.0\\.0\\.1|localhost|\\[::1\\]):${PORT}(?:/[A-Za-z0-9._/-]*)?$`, "u");
const LOCK = /^[0-9]{1,40}:[0-9]{1,40}$/u;
const TOKEN_FILE = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/u;
const LOOPBACK_HOSTS: readonly string[] = ["127.0.0.1", "localhost", "::1"];
const SCOPES: readonly string[] = [SHARED_SCOPE, "LOCAL_PRIVATE"];
const MAX_HEADERS = 20;
const MAX_MOUNTS = 100;
const MAX_DEPTH = 20;

/** Read a parsed endpoints.json; throws an EndpointsError at the first field that is wrong. */
export function readEndpoints(value: unknown): Endpoints {
  if (!isObject(value)) throw new EndpointsError("", "an object");
  if (value["version"] !== 1)
    throw new EndpointsError("version", "1, another needs an update: run doxtr-rag install-agent pi");
  checkText(value, []);
  const root = new Fields(value, "");
  return {
    kbId: root.text("kb_id", NAME, "a name"),
    project: root.text("project", NAME, "a name"),
    embedding: embeddingOf(root.below("embedding")),
    stores: [
      storeOf(root.below("shared"), "shared", SHARED_SCOPE),
      storeOf(root.below("private"), "private", "LOCAL_PRIVATE"),
      ...mountsOf(value["mounts"]),
    ],
    searchUrl: root.address("search_url"),
    tokenFile: value["token_file"] === null ? null : root.text("token_file", TOKEN_FILE, "a file name or null"),
    lock: value["lock"] === undefined ? null : root.text("lock", LOCK, "two numbers"),
  };
}

/** Refuse control characters and half surrogate pairs wherever they are, in fields of a later version too. */
function checkText(value: unknown, at: readonly string[]): void {
  if (at.length > MAX_DEPTH) throw new EndpointsError(at[0] ?? "", `at most ${MAX_DEPTH} levels in it`);
  if (typeof value === "string" && UNFIT.test(value))
    throw new EndpointsError(at.join("."), "text without control characters");
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (UNFIT.test(key)) throw new EndpointsError(at.join("."), "field names without control characters");
    checkText(inner, [...at, key]);
  }
}

function embeddingOf(fields: Fields): Embedding {
  return {
    model: fields.text("model", NAME, "a name"),
    dimension: fields.integer("dimension", 65_536),
    fingerprint: fields.text("fingerprint", FINGERPRINT, "hexadecimal digits"),
    embedUrl: fields.address("embed_url"),
  };
}

function storeOf(fields: Fields, name: string, scope: string): Store {
  const mode = fields.choice("mode", ["embedded", "http"]) === "http" ? "http" : "embedded";
  const host = fields.text("host", HOST, "a host name");
  const ssl = fields.flag("ssl");
  if (mode === "embedded" && !LOOPBACK_HOSTS.includes(host)) fields.refuse("host", "a loopback address");
  if (mode === "embedded" && ssl) fields.refuse("ssl", "false on loopback");
  return {
    name,
    scope,
    mode,
    host,
    port: fields.integer("port", 65_535),
    ssl,
    tenant: fields.text("tenant", NAME, "a name"),
    database: fields.text("database", NAME, "a name"),
    collection: fields.text("collection", COLLECTION, "a collection name"),
    headerKeys: fields.names("header_keys"),
  };
}

function mountsOf(value: unknown): Store[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > MAX_MOUNTS)
    throw new EndpointsError("mounts", `a list of at most ${MAX_MOUNTS}`);
  return value.map((mount: unknown, index) => {
    const at = `mounts.${index}`;
    if (!isObject(mount)) throw new EndpointsError(at, "an object");
    const fields = new Fields(mount, `${at}.`);
    const name = fields.text("name", MOUNT_NAME, "a name that is no path");
    if (["shared", "private"].includes(name)) fields.refuse("name", "a name that no other store has");
    fields.text("path", NAME, "a path");
    return storeOf(fields, name, fields.choice("scope", SCOPES));
  });
}

/** The fields of one object, and where it lies. */
class Fields {
  readonly #record: JsonObject;
  readonly #at: string;

  constructor(record: JsonObject, at: string) {
    this.#record = record;
    this.#at = at;
  }

  refuse(key: string, expected: string): never {
    throw new EndpointsError(`${this.#at}${key}`, expected);
  }

  below(key: string): Fields {
    const value = this.#record[key];
    return isObject(value) ? new Fields(value, `${this.#at}${key}.`) : this.refuse(key, "an object");
  }

  text(key: string, shape: RegExp, expected: string): string {
    const value = this.#record[key];
    return typeof value === "string" && shape.test(value) ? value : this.refuse(key, expected);
  }

  choice(key: string, words: readonly string[]): string {
    const value = this.#record[key];
    return typeof value === "string" && words.includes(value) ? value : this.refuse(key, words.join(" or "));
  }

  integer(key: string, highest: number): number {
    const value = this.#record[key];
    const isFit = typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= highest;
    return isFit ? value : this.refuse(key, `a whole number from 1 to ${highest}`);
  }

  flag(key: string): boolean {
    const value = this.#record[key];
    return typeof value === "boolean" ? value : this.refuse(key, "true or false");
  }

  address(key: string): URL | null {
    const value = this.#record[key];
    if (value === null) return null;
    const isFit = typeof value === "string" && LOOPBACK_URL.test(value) && URL.canParse(value);
    return isFit ? new URL(value) : this.refuse(key, "an http address on loopback or null");
  }

  names(key: string): readonly string[] {
    const value = this.#record[key];
    if (!Array.isArray(value) || value.length > MAX_HEADERS) return this.refuse(key, "a list of header names");
    return value.map((name: unknown, index) =>
      typeof name === "string" && HEADER_NAME.test(name) ? name : this.refuse(`${key}.${index}`, "a header name"),
    );
  }
}
