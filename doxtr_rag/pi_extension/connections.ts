/** Connections to one server, each of which proves whose it is before anything else goes over it. */
import { Agent } from "node:http";
import type { AgentOptions, ClientRequestArgs } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { KnowledgeBaseError } from "./errors.js";
import { IDLE_MS } from "./http.js";

/** Asks who is at the other end of the connection it is given; rejects when it is a stranger. */
export type Proof = (connection: Agent) => Promise<void>;
type OnConnection = (error: Error | null, socket: Duplex) => void;

const KEPT: AgentOptions = { keepAlive: true, timeout: IDLE_MS };

/**
 * Keeps proven connections; one that is opened proves itself first.
 *
 * A port may change its owner at any time, a connection cannot: whoever takes the port of a server that ended has to
 * prove itself.
 */
export class ProvenConnections extends Agent {
  readonly #prove: Proof;

  constructor(prove: Proof) {
    super(KEPT);
    this.#prove = prove;
  }

  override createConnection({ host, port }: ClientRequestArgs, onConnection?: OnConnection): undefined {
    const socket = connect({ host: host ?? "", port: Number(port), noDelay: true });
    // Its requests hear of an error; between two requests only the close counts.
    socket.on("error", () => undefined);
    const single = new SingleRequest(socket);
    Promise.all([this.#prove(single), single.isOver]).then(
      () => onConnection?.(socket.destroyed ? closedError() : null, socket),
      (error: Error) => {
        socket.destroy();
        onConnection?.(error, socket);
      },
    );
  }
}

/** Carries one request over a connection, then leaves it open and lets go of it. */
class SingleRequest extends Agent {
  readonly isOver: Promise<void>;
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super(KEPT);
    this.#socket = socket;
    this.isOver = new Promise((resolve, reject) => {
      socket.once("free", () => setImmediate(resolve));
      socket.once("close", () => reject(closedError()));
    });
  }

  override createConnection(): Socket {
    // Two agents must not both hear that the connection is free.
    setImmediate(() => this.#socket.emit("agentRemove"));
    return this.#socket;
  }
}

function closedError(): KnowledgeBaseError {
  return new KnowledgeBaseError("unreachable", "The server closed the connection after it had proved itself.");
}
