/**
 * The extension: registers the tools, the command and the status line; opens nothing before it is asked.
 *
 * Anything thrown while it loads would end Pi, so nothing is.
 */
import { AutoContext } from "./auto-context.js";
import { Client } from "./client.js";
import { kbCommand, showStatusLine, STATUS_KEY } from "./commands.js";
import { outlineTool, readingTool } from "./document-tools.js";
import { asKnowledgeBaseError } from "./errors.js";
import type { Pi } from "./pi-types.js";
import { searchTool } from "./search-tool.js";
import { isDisabled } from "./settings.js";
import { countLine } from "./status.js";

export default function chromaRag(pi: Pi): void {
  try {
    if (!isDisabled(process.env)) register(pi, new Client(process.env));
  } catch (error) {
    console.error(`chroma-rag was not loaded: ${asKnowledgeBaseError(error).message}`);
  }
}

function register(pi: Pi, client: Client): void {
  const autoContext = new AutoContext();
  pi.registerTool(
    searchTool(client, ({ stores, failedStores }, context) => {
      quietly(() => context.ui.setStatus(STATUS_KEY, countLine(stores, failedStores)));
    }),
  );
  pi.registerTool(outlineTool(client));
  pi.registerTool(readingTool(client));
  pi.registerCommand("kb", kbCommand(client, autoContext));
  pi.on("session_start", (_event, context) => quietly(() => showStatusLine(client, context)));
  pi.on("session_shutdown", (_event, context) => quietly(() => context.ui.setStatus(STATUS_KEY, undefined)));
  pi.on("before_agent_start", async ({ prompt }, context) => {
    return prompt !== undefined && isAutomatic(client)
      ? autoContext.messageFor(client, context.cwd, prompt, context.signal)
      : undefined;
  });
}

function isAutomatic(client: Client): boolean {
  try {
    return client.settings().hasAutoContext;
  } catch {
    return false;
  }
}

/** Run what only decorates; a failure in it is no reason to disturb a session. */
function quietly(decorate: () => void): void {
  try {
    decorate();
  } catch {
    // The next /kb status says what is wrong.
  }
}
