import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { FrameStream } from './frame-stream.ts';
import { CLOSE_TIMEOUT_OPTION } from './open-websocket.ts';
import type { TurnCredit } from './turn-credit.ts';

/** Completes websocket handshakes, without compression. The owner of the socket answers pings. */
export class UpgradeServer {
  readonly #maxMessageBytes: number;
  /** The subprotocols of the requests for which the caller has chosen one. */
  readonly #chosen = new WeakMap<IncomingMessage, string>();
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    autoPong: false,
    perMessageDeflate: false,
    handleProtocols: (_, request) => this.#chosen.get(request) ?? false,
    ...CLOSE_TIMEOUT_OPTION,
  });

  /** 0 means no limit. */
  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  /**
   * Completes the handshake. An invalid request gets an HTTP error, and `accepted` is not called. `credit` is that of
   * the connection's tenant; by default the connection has its own. `subprotocol` is one that the client has offered.
   */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accepted: (ws: WebSocket, stream: FrameStream) => void,
    credit?: TurnCredit,
    subprotocol?: string,
  ): void {
    if (subprotocol !== undefined) this.#chosen.set(request, subprotocol);
    const stream = new FrameStream(socket, head, this.#maxMessageBytes, credit);
    this.#server.handleUpgrade(request, stream, NOTHING, (ws) => accepted(ws, stream));
  }
}

/** The frame stream has the bytes that arrived with the request. */
const NOTHING = Buffer.alloc(0);
