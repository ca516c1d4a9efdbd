import { connectFrameSocket, type FrameSocket } from '../../transport/frame-socket.ts';
import { BufferedMessage } from '../../transport/growable-buffer.ts';
import type { TlsOptions } from '../../transport/open-websocket.ts';
import { CloseCode, type Transport } from '../../transport/transport.ts';
import {
  MAX_MESSAGE_BYTES,
  PEER_SILENCE_MS,
  PING_INTERVAL_MS,
  SOCKET_CONNECT_TIMEOUT_MS,
} from '../limits.ts';
import { rejectStream } from '../stream/reject-stream.ts';

/** Where streams are forwarded to. */
export interface ForwardTarget {
  /** `ws:` or `wss:`. */
  readonly url: string;
  readonly tls?: TlsOptions | undefined;
}

/**
 * Connects a stream with a server: what comes from either goes to the other, message by message and unread. There is no session here
 * and nothing is kept: the end of one is the end of the other. Resolves when both have ended; rejects when the server is not reached,
 * and the stream is closed then.
 */
export async function forwardStream(stream: Transport, { url, tls }: ForwardTarget): Promise<void> {
  let socket: FrameSocket;
  try {
    socket = await connectFrameSocket(url, {
      text: 'accept',
      maxMessageBytes: MAX_MESSAGE_BYTES,
      pingIntervalMs: PING_INTERVAL_MS,
      peerSilenceTimeoutMs: PEER_SILENCE_MS,
      signal: AbortSignal.timeout(SOCKET_CONNECT_TIMEOUT_MS),
      ...(tls !== undefined && { tls }),
    });
  } catch (error) {
    rejectStream(stream, 'the server is not reached');
    throw error;
  }
  await Promise.all([fromStream(stream, socket), fromServer(socket, stream)]);
}

function fromStream(stream: Transport, socket: FrameSocket): Promise<void> {
  return new Promise((resolve) => {
    const pass = (message: Buffer) => {
      if (!socket.send(message)) stream.setReceiving(false);
    };
    stream.open({
      message: (text) => pass(Buffer.from(text)),
      largeMessage: (expectedBytes) => new BufferedMessage(expectedBytes, pass),
      undecodable: () => stream.close({ code: CloseCode.protocolError, reason: 'a message is not UTF-8' }),
      drained: () => socket.setReceiving(true),
      ended: () => socket.close(),
      closed: () => {
        // Behind what the harness said last; a server that does not read it is cut off soon.
        socket.close();
        resolve();
      },
    });
  });
}

function fromServer(socket: FrameSocket, stream: Transport): Promise<void> {
  return new Promise((resolve) => {
    socket.open({
      frame: (message) => {
        if (!stream.send(message)) socket.setReceiving(false);
      },
      drained: () => stream.setReceiving(true),
      closed: (reason) => {
        stream.close(reason);
        resolve();
      },
    });
  });
}
