import { TimeLimit } from '../../base/time-limit.ts';
import { connectFrameSocket, type FrameSocket } from '../../transport/frame-socket.ts';
import { BufferedMessage } from '../../transport/growable-buffer.ts';
import type { TlsOptions } from '../../transport/tls-options.ts';
import { CloseCode, type Transport } from '../../transport/transport.ts';
import {
  MAX_MESSAGE_BYTES,
  PEER_SILENCE_MS,
  PING_INTERVAL_MS,
  SOCKET_CONNECT_TIMEOUT_MS,
} from '../limits.ts';
import { rejectStream } from '../stream/noise-stream.ts';

/** The server that streams are forwarded to. */
export interface ForwardTarget {
  /** `ws:` or `wss:`. */
  readonly url: string;
  readonly tls?: TlsOptions | undefined;
}

/**
 * Forwards messages between a stream and a server in both directions, without reading them. It keeps no session: when one side ends,
 * the other ends too. Resolves when both have ended. Closes the stream and rejects when it cannot connect to the server.
 */
export async function forwardStream(stream: Transport, { url, tls }: ForwardTarget): Promise<void> {
  let socket: FrameSocket;
  try {
    socket = await TimeLimit.run(SOCKET_CONNECT_TIMEOUT_MS, null, (signal) =>
      connectFrameSocket(url, {
        text: 'accept',
        maxMessageBytes: MAX_MESSAGE_BYTES,
        pingIntervalMs: PING_INTERVAL_MS,
        peerSilenceTimeoutMs: PEER_SILENCE_MS,
        signal,
        ...(tls !== undefined && { tls }),
      }),
    );
  } catch (error) {
    rejectStream(stream, 'cannot connect to the server');
    throw error;
  }
  await Promise.all([fromStream(stream, socket), fromServer(socket, stream)]);
}

function fromStream(stream: Transport, socket: FrameSocket): Promise<void> {
  return new Promise((resolve) => {
    const forward = (message: Buffer) => {
      if (!socket.send(message)) stream.setReceiving(false);
    };
    stream.open({
      message: (text) => forward(Buffer.from(text)),
      largeMessage: (expectedBytes) => new BufferedMessage(expectedBytes, forward),
      undecodable: () => stream.close({ code: CloseCode.protocolError, reason: 'a message is not UTF-8' }),
      drained: () => socket.setReceiving(true),
      ended: () => socket.close(),
      closed: () => {
        // Closes after the last message of the harness. The socket drops a server that does not read it.
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
