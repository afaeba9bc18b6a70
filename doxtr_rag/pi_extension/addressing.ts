/** Which knowledge base a folder belongs to; what lies there is not trusted before it was checked. */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { line } from "./display.js";
import { readEndpoints, EndpointsError, SHARED_SCOPE } from "./endpoints.js";
import type { Endpoints } from "./endpoints.js";
import { KnowledgeBaseError } from "./errors.js";
import { parsed } from "./json.js";
import { hasLockBeside, isLockBeside } from "./server-lock.js";
import { hasChosenEndpoints } from "./settings.js";
import type { Settings } from "./settings.js";

const FOLDER = ".doxtr";
const FILE = "endpoints.json";
const MAX_BYTES = 1024 * 1024;
const TOKEN = /^[0-9a-f]{64}$/u;

export type KnowledgeBase = {
  readonly path: string;
  /** The project: the folder that holds `.doxtr`. */
  readonly root: string;
  readonly endpoints: Endpoints;
  /** null while no server runs there. */
  readonly token: string | null;
};

/** Return the nearest endpoints.json at or above a folder, or the one that the settings name. */
export function endpointsPath(cwd: string, settings: Settings): string | undefined {
  if (settings.endpointsPath !== undefined) return resolve(cwd, settings.endpointsPath);
  let folder = resolve(cwd);
  for (;;) {
    const path = join(folder, FOLDER, FILE);
    if (exists(path)) return path;
    if (dirname(folder) === folder) return undefined;
    folder = dirname(folder);
  }
}

/** Return the knowledge base of a folder; throws when there is none, or its files cannot be trusted. */
export function knowledgeBaseOf(cwd: string, settings: Settings): KnowledgeBase {
  const path = endpointsPath(cwd, settings);
  if (path === undefined) {
    throw new KnowledgeBaseError(
      "no_knowledge_base",
      `No knowledge base was found at or above ${cwd}: build the documentation with doxtr-rag in that project, or set DOXTR_RAG_ENDPOINTS.`,
    );
  }
  const folder = dirname(path);
  const endpoints = allowed(endpointsIn(path), settings);
  const { tokenFile, lock } = endpoints;
  // A file that was chosen may lie elsewhere without any lock; a copied folder has a lock of its own.
  const isAlone = hasChosenEndpoints(settings) && !hasLockBeside(path);
  const isServerHere = lock === null || isAlone || isLockBeside(path, lock);
  return {
    path,
    root: basename(folder) === FOLDER ? dirname(folder) : folder,
    endpoints,
    token: tokenFile !== null && isServerHere ? tokenIn(join(folder, tokenFile)) : null,
  };
}

/** Return the endpoints without the stores that the agent may not read. */
function allowed(endpoints: Endpoints, { hasPrivatePages }: Settings): Endpoints {
  if (hasPrivatePages) return endpoints;
  return { ...endpoints, stores: endpoints.stores.filter(({ scope }) => scope === SHARED_SCOPE) };
}

function endpointsIn(path: string): Endpoints {
  try {
    return readEndpoints(parsed(ownText(path)));
  } catch (error) {
    if (!(error instanceof EndpointsError)) throw error;
    throw new KnowledgeBaseError(
      "bad_endpoints",
      `${path} is not usable (${line(error.message)}): run doxtr-rag serve --detach in that project.`,
    );
  }
}

/** Return the token; null when the server took it away. */
function tokenIn(path: string): string | null {
  if (!exists(path)) return null;
  const token = ownText(path).trim();
  if (TOKEN.test(token)) return token;
  throw new KnowledgeBaseError(
    "bad_endpoints",
    `${path} holds no token: run doxtr-rag serve --stop, then doxtr-rag serve --detach.`,
  );
}

/** Return whether there is anything of that name, a dangling link included. */
function exists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/** Read a regular file that only this user can have written and can read. */
function ownText(path: string): string {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    throw refused(
      path,
      error instanceof Error && "code" in error ? `cannot be opened: ${String(error.code)}` : "cannot be opened",
    );
  }
  try {
    const { mode, uid, size } = fstatSync(descriptor);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw refused(path, "is no regular file");
    if (size > MAX_BYTES) throw refused(path, "is too large");
    const user = process.getuid?.();
    if (user !== undefined && uid !== user && uid !== 0) throw refused(path, "belongs to another user");
    if (user !== undefined && (mode & 0o077) !== 0) throw refused(path, "can be read or written by other users");
    return readFileSync(descriptor, "utf8");
  } finally {
    closeSync(descriptor);
  }
}

function refused(path: string, why: string): KnowledgeBaseError {
  return new KnowledgeBaseError(
    "untrusted_endpoints",
    `${path} ${why}: it is not used; check who wrote it, remove it, and run doxtr-rag serve --detach.`,
  );
}
