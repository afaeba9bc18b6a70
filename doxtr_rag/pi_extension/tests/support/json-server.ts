/** A small HTTP server on loopback that answers JSON and remembers what it was asked. */
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Asked = {
  readonly method: string;
  readonly path: string;
  readonly search: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
};
export type Reply = {
  readonly status?: number;
  readonly body?: unknown;
  readonly raw?: string;
  readonly headers?: Record<string, string>;
};
/** undefined never answers. */
export type Responder = (asked: Asked) => Reply | undefined | Promise<Reply | undefined>;

export class JsonServer {
  readonly asked: Asked[] = [];
  connections = 0;
  port = 0;
  readonly #server: Server;
  #respond: Responder;

  private constructor(respond: Responder) {
    this.#respond = respond;
    this.#server = createServer((incoming, outgoing) => void this.#answer(incoming, outgoing));
    this.#server.on("connection", () => (this.connections += 1));
  }

  static async start(respond: Responder, port = 0): Promise<JsonServer> {
    const server = new JsonServer(respond);
    await new Promise<void>((resolve, reject) => {
      server.#server.once("error", reject);
      server.#server.listen(port, "127.0.0.1", resolve);
    });
    server.port = (server.#server.address() as AddressInfo).port;
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  respondWith(respond: Responder): void {
    this.#respond = respond;
  }

  paths(): string[] {
    return this.asked.map(({ path }) => path);
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of incoming as AsyncIterable<Buffer>) text += chunk.toString("utf8");
    const url = new URL(incoming.url ?? "/", "http://127.0.0.1");
    const asked: Asked = {
      method: incoming.method ?? "",
      path: decodeURIComponent(url.pathname),
      search: url.searchParams,
      headers: incoming.headers,
      body: text === "" ? undefined : JSON.parse(text),
    };
    this.asked.push(asked);
    const reply = await this.#respond(asked);
    if (!reply) return;
    outgoing.writeHead(reply.status ?? 200, { "Content-Type": "application/json", ...reply.headers });
    outgoing.end(reply.raw ?? JSON.stringify(reply.body ?? {}));
  }
}
