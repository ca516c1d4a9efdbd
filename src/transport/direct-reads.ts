import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { readBuffer } from './read-buffer.ts';

/** Receives the bytes of a socket. */
export interface ReadTarget {
  /** Whether a large message is arriving. */
  readonly expectsLarge: boolean;
  /** Receives bytes that are valid during the call only, and may be modified. */
  take(chunk: Buffer): void;
}

/**
 * Makes a socket read into a buffer that all sockets share, or into a larger one for large messages. Otherwise Node
 * allocates 64 KiB per read, which is most of the garbage of a busy server. Node's option `onread` does the same
 * for sockets that a program opens itself. For accepted sockets there is no such option, so this uses the same
 * internals. Returns false and changes nothing when Node lacks these internals; then there are only `data` events.
 * Bytes that a socket holds because it is or was paused always come as `data` events. A socket that reads directly
 * stops immediately when it is paused, and does not notice its end then; `read(0)` makes it continue.
 */
export function readDirectly(socket: Duplex, target: ReadTarget): boolean {
  if (!(socket instanceof Socket) || socket.constructor !== Socket) return false;
  const { _handle: handle } = socket as unknown as { _handle?: Partial<StreamHandle> | null };
  const inside = socket as unknown as Record<symbol, unknown>;
  const [buffer, callback, next] = ['kBuffer', 'kBufferCb', 'kBufferGen'].map((name) =>
    Object.getOwnPropertySymbols(socket).find(({ description }) => description === name),
  );
  if (typeof handle?.useUserBuffer !== 'function' || !buffer || !callback || !next) return false;
  inside[buffer] = readBuffer(false);
  inside[next] = () => readBuffer(target.expectsLarge);
  inside[callback] = (bytes: number, used: Buffer) => {
    const chunk = used.subarray(0, bytes);
    // A paused socket buffers bytes up to its high-water mark, and buffered bytes go first.
    if (socket.isPaused() || socket.readableLength > 0) return socket.push(Buffer.from(chunk));
    target.take(chunk);
    return true;
  };
  handle.useUserBuffer(readBuffer(false));
  return true;
}

/** The part of Node's stream handles that reads into a given buffer. */
interface StreamHandle {
  useUserBuffer(buffer: Buffer): void;
}
