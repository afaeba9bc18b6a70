/** One call on the knowledge base of a folder: found, and its server started when it does not run. */
import { knowledgeBaseOf } from "./addressing.js";
import type { KnowledgeBase } from "./addressing.js";
import { isServerDown, KnowledgeBaseError } from "./errors.js";
import { Launcher } from "./launch.js";
import type { LaunchFailure } from "./launch.js";
import { ServerClient } from "./server.js";
import { readSettings } from "./settings.js";
import type { Environment, Settings } from "./settings.js";

export type Call = {
  readonly base: KnowledgeBase;
  readonly settings: Settings;
  readonly server: ServerClient;
  readonly signal: AbortSignal | undefined;
  /** Whether a server that does not run is an error; otherwise the stores it serves are left out. */
  readonly needsServer: boolean;
};

export type CallOptions = {
  readonly mayLaunch: boolean;
  /** Hears that a server is being started, which takes a while. */
  readonly onLaunch?: () => void;
};
type Work<T> = (call: Call) => Promise<T>;

/** What outlives a call: proofs of servers, and starts that are under way. */
export class Client {
  readonly server = new ServerClient();
  readonly #launcher = new Launcher();
  readonly #environment: Environment;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  settings(): Settings {
    return readSettings(this.#environment);
  }

  /** Run work on the knowledge base of a folder; when it finds no server, once more after starting one. */
  async call<T>(cwd: string, signal: AbortSignal | undefined, options: CallOptions, work: Work<T>): Promise<T> {
    const settings = this.settings();
    const base = knowledgeBaseOf(cwd, settings);
    const given = { settings, server: this.server, signal };
    if (!options.mayLaunch) return work({ ...given, base, needsServer: false });
    try {
      return await work({ ...given, base, needsServer: true });
    } catch (error) {
      if (!isServerDown(error)) throw error;
    }
    options.onLaunch?.();
    const failure = await this.#launcher.launch(base.root, settings.searchPath, signal);
    try {
      return await work({ ...given, base: knowledgeBaseOf(cwd, settings), needsServer: false });
    } catch (error) {
      if (!isServerDown(error) || failure === undefined) throw error;
      throw notStarted(base.root, failure);
    }
  }
}

function notStarted(root: string, { reason, isAdvised }: LaunchFailure): KnowledgeBaseError {
  const advice = isAdvised ? "" : ": run doxtr-rag serve --detach there";
  return new KnowledgeBaseError(
    "server_down",
    `The knowledge-base server of ${root} does not run and could not be started (${reason})${advice}.`,
  );
}
