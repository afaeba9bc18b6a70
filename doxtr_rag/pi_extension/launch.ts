/** A server that does not run is started, through the `doxtr-rag` on PATH and nothing else. */
import { spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { within } from "./deadline.js";
import { line } from "./display.js";
import { asKnowledgeBaseError, unended } from "./errors.js";
import { isObject, parsed, textOrEmpty } from "./json.js";

/** Longer than the command itself waits, so that it can say what went wrong. */
const LAUNCH_MS = 70_000;
const MAX_REASON = 1_000;
const MAX_OUTPUT = 64 * 1024;
const COMMAND = process.platform === "win32" ? "doxtr-rag.exe" : "doxtr-rag";

/** Why a server could not be started; `isAdvised` when it says already what to do. */
export type LaunchFailure = { readonly reason: string; readonly isAdvised: boolean };

/** Starts servers; calls that need the same one wait for the same start. */
export class Launcher {
  readonly #running = new Map<string, Promise<LaunchFailure | undefined>>();

  /** Start the server of a project; return why it could not be started, undefined when it was. */
  async launch(
    root: string,
    searchPath: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<LaunchFailure | undefined> {
    let running = this.#running.get(root);
    if (!running) {
      running = start(root, searchPath).finally(() => this.#running.delete(root));
      this.#running.set(root, running);
    }
    const shared = running;
    return within({ what: "doxtr-rag serve --detach", limitMs: LAUNCH_MS + 1_000, signal }, () => shared);
  }
}

/** Return the path of the command; folders relative to the working directory are passed over. */
export function commandOn(searchPath: readonly string[]): string | undefined {
  return searchPath
    .filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, COMMAND))
    .find(isExecutable);
}

async function start(root: string, searchPath: readonly string[]): Promise<LaunchFailure | undefined> {
  const command = commandOn(searchPath);
  if (command === undefined) return unadvised("doxtr-rag is not on PATH");
  try {
    return await within({ what: "doxtr-rag serve --detach", limitMs: LAUNCH_MS, signal: undefined }, (signal) =>
      outcomeOf(command, root, signal),
    );
  } catch (error) {
    return unadvised(line(asKnowledgeBaseError(error).message));
  }
}

function outcomeOf(command: string, root: string, signal: AbortSignal): Promise<LaunchFailure | undefined> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, ["serve", "--detach", "--json"], {
      cwd: root,
      shell: false,
      stdio: ["ignore", "pipe", "ignore"],
      windowsHide: true,
      signal,
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      if (output.length < MAX_OUTPUT) output += chunk.toString("utf8");
    });
    child.on("error", reject);
    // Not "close": a server that inherited the pipe keeps it open.
    child.on("exit", (code) => {
      setImmediate(() => {
        child.stdout.destroy();
        resolve(code === 0 ? undefined : failureIn(output, code));
      });
    });
  });
}

function failureIn(output: string, code: number | null): LaunchFailure {
  const said = parsed(output);
  const message = isObject(said) ? line(textOrEmpty(said["message"]), MAX_REASON) : "";
  if (message === "") return unadvised(`doxtr-rag serve --detach ended with status ${code}`);
  return { reason: unended(message), isAdvised: true };
}

function unadvised(reason: string): LaunchFailure {
  return { reason: unended(reason), isAdvised: false };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
