/** The command `/kb`; it costs no call of the model. */
import { searchRequest } from "./arguments.js";
import type { AutoContext } from "./auto-context.js";
import type { Client } from "./client.js";
import { asKnowledgeBaseError } from "./errors.js";
import type { Command, Context } from "./pi-types.js";
import { search, textOfAnswer } from "./search.js";
import { sourcesText, statusLine, statusText } from "./status.js";

export const STATUS_KEY = "chroma-rag";

const USAGE = "usage: /kb status | search <question> | sources | reload";
const WORDS = [
  { value: "status", description: "Reachable stores, chunks, model, age, and what to do" },
  { value: "search", description: "Search and show the passages" },
  { value: "sources", description: "Where the stores lie" },
  { value: "reload", description: "Read the endpoints again and ask servers for a new proof" },
];

/** Return the command. */
export function kbCommand(client: Client, autoContext: AutoContext): Command {
  return {
    description: "Knowledge base: status, search <question>, sources, reload",
    getArgumentCompletions: (prefix) => {
      const found = WORDS.filter(({ value }) => value.startsWith(prefix)).map((word) => ({
        ...word,
        label: word.value,
      }));
      return found.length > 0 ? found : null;
    },
    async handler(given, context) {
      try {
        tell(context, await answered(client, autoContext, given, context), "info");
      } catch (error) {
        tell(context, asKnowledgeBaseError(error).message, "error");
      }
    },
  };
}

/** Show how many stores the folder has; a folder without a knowledge base shows nothing. */
export function showStatusLine(client: Client, context: Context): void {
  context.ui.setStatus(STATUS_KEY, lineOf(client, context.cwd));
}

async function answered(client: Client, autoContext: AutoContext, given: string, context: Context): Promise<string> {
  const [word = "", ...rest] = given.trim().split(/\s+/u);
  switch (word) {
    case "":
    case "status":
      return `${await statusText(client, context.cwd, context.signal)}\n${autoContext.describe(client.settings().hasAutoContext)}`;
    case "sources":
      return sourcesText(client, context.cwd, context.signal);
    case "reload":
      client.server.forget();
      showStatusLine(client, context);
      return `Read again: ${lineOf(client, context.cwd) ?? "no knowledge base here"}`;
    case "search": {
      const answer = await search(client, context.cwd, searchRequest({ query: rest.join(" ") }), {
        mayLaunch: true,
        signal: context.signal,
      });
      return textOfAnswer(answer);
    }
    default:
      return USAGE;
  }
}

function lineOf(client: Client, cwd: string): string | undefined {
  try {
    return statusLine(client, cwd);
  } catch {
    return "kb: see /kb status";
  }
}

function tell(context: Context, message: string, type: "info" | "error"): void {
  context.ui.notify(message, type);
  // Without a user interface a notification is not shown; this goes to standard error there.
  if (!context.hasUI) console.log(message);
}
