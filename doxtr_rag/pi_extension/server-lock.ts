/** The lock file of a knowledge base's server: which folder the server runs in, and whether it lives. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { isObject, parsed } from "./json.js";

const FILE = "server.lock";

/**
 * Return whether the lock beside an endpoints.json is the one that its server published.
 *
 * A copied folder has the endpoints and the token of the original, but never its lock.
 */
export function isLockBeside(endpointsPath: string, published: string): boolean {
  try {
    const { dev, ino } = statSync(lockBeside(endpointsPath), { bigint: true });
    return `${dev}:${ino}` === published;
  } catch {
    return false;
  }
}

/** Return whether a lock lies beside an endpoints.json at all. */
export function hasLockBeside(endpointsPath: string): boolean {
  return existsSync(lockBeside(endpointsPath));
}

/** Return whether the process that signed the lock beside an endpoints.json lives on this machine. */
export function isServerAlive(endpointsPath: string): boolean {
  try {
    const holder = parsed(readFileSync(lockBeside(endpointsPath), "utf8"));
    const pid = isObject(holder) && holder["host"] === hostname() ? Number(holder["pid"]) : 0;
    return Number.isInteger(pid) && pid > 1 && process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

function lockBeside(endpointsPath: string): string {
  return join(dirname(endpointsPath), FILE);
}
