/** The parts of Pi that the extension talks to, written down as they are called. */
import type { Command, Context, Pi, Theme, Tool, ToolResult } from "../../pi-types.js";
import chromaRag from "../../chroma-rag.js";

type AnyTool = Tool<never>;
type Handler = (event: never, context: Context) => unknown;

export const plainTheme: Theme = { fg: (_color, text) => text, bold: (text) => text };
export const markedTheme: Theme = { fg: (color, text) => `<${color}>${text}</>`, bold: (text) => text };

export class FakePi {
  readonly tools = new Map<string, AnyTool>();
  readonly commands = new Map<string, Command>();
  readonly handlers = new Map<string, Handler>();
  readonly statuses: (string | undefined)[] = [];
  readonly notes: string[] = [];

  /** Load the extension as Pi does. */
  static load(): FakePi {
    const pi = new FakePi();
    chromaRag(pi.api());
    return pi;
  }

  api(): Pi {
    return {
      registerTool: (tool) => void this.tools.set(tool.name, tool as unknown as AnyTool),
      registerCommand: (name, command) => void this.commands.set(name, command),
      on: (name, handler) => void this.handlers.set(name, handler as Handler),
    };
  }

  context(cwd: string, signal?: AbortSignal): Context {
    return {
      cwd,
      signal,
      hasUI: true,
      ui: {
        notify: (message) => void this.notes.push(message),
        setStatus: (_key, text) => void this.statuses.push(text),
      },
    };
  }

  tool(name: string): AnyTool {
    const tool = this.tools.get(name);
    if (!tool) throw new Error(`no tool ${name}`);
    return tool;
  }

  execute(
    name: string,
    given: unknown,
    cwd: string,
    onUpdate?: (partial: ToolResult<never>) => void,
  ): Promise<ToolResult<never>> {
    const tool = this.tool(name);
    return tool.execute("id", tool.prepareArguments(given), undefined, onUpdate, this.context(cwd));
  }

  async kb(given: string, cwd: string): Promise<string> {
    await this.commands.get("kb")?.handler(given, this.context(cwd));
    return this.notes.at(-1) ?? "";
  }

  async emit(name: string, event: object, cwd: string): Promise<unknown> {
    return this.handlers.get(name)?.({ type: name, ...event } as never, this.context(cwd));
  }
}
