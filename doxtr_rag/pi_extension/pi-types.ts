/**
 * What this extension uses of Pi, 0.73 and 1.x alike.
 *
 * Written down here instead of imported, so that the extension is checked without Pi and loads whatever its packages
 * are called.
 */

export type TextContent = { readonly type: "text"; readonly text: string };
export type ToolResult<Details> = { readonly content: readonly TextContent[]; readonly details: Details };
export type OnUpdate<Details> = (partial: ToolResult<Details>) => void;

export type Theme = {
  fg(color: string, text: string): string;
  bold(text: string): string;
};

/** What Pi draws: no line may be wider than the width it asks for. */
export type Component = {
  render(width: number): string[];
  invalidate(): void;
};

export type UserInterface = {
  notify(message: string, type?: "info" | "warning" | "error"): void;
  setStatus(key: string, text: string | undefined): void;
};

export type Context = {
  readonly ui: UserInterface;
  readonly hasUI: boolean;
  readonly cwd: string;
  readonly signal?: AbortSignal | undefined;
};

/** A result as it is drawn; one of a failed call has no details. */
export type DrawnResult<Details> = {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly details?: Partial<Details> | undefined;
};

export type Tool<Details> = {
  readonly name: string;
  readonly label: string;
  readonly description: string;
  readonly promptSnippet: string;
  readonly promptGuidelines: readonly string[];
  readonly parameters: object;
  prepareArguments(given: unknown): unknown;
  execute(
    id: string,
    given: unknown,
    signal: AbortSignal | undefined,
    onUpdate: OnUpdate<Details> | undefined,
    context: Context,
  ): Promise<ToolResult<Details>>;
  renderCall(given: unknown, theme: Theme): Component;
  renderResult(
    result: DrawnResult<Details>,
    options: { readonly expanded: boolean; readonly isPartial: boolean },
    theme: Theme,
  ): Component;
};

export type Completion = { readonly value: string; readonly label: string; readonly description?: string };

export type Command = {
  readonly description: string;
  getArgumentCompletions(prefix: string): Completion[] | null;
  handler(given: string, context: Context): Promise<void>;
};

export type AddedMessage = {
  readonly message: { readonly customType: string; readonly content: string; readonly display: boolean };
};

export type PiEvents = {
  session_start: { readonly type: string };
  session_shutdown: { readonly type: string };
  before_agent_start: { readonly type: string; readonly prompt?: string };
};

type Handler<Event> = (event: Event, context: Context) => Promise<AddedMessage | undefined> | void;

export type Pi = {
  registerTool<Details>(tool: Tool<Details>): void;
  registerCommand(name: string, command: Command): void;
  on<Name extends keyof PiEvents>(name: Name, handler: Handler<PiEvents[Name]>): void;
};
