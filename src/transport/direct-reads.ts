import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { readBuffer } from './read-buffer.ts';

/** Takes what a socket receives. */
export interface ReadTarget {
  /** Whether much is to come. */
  readonly expectsLarge: boolean;
  /** Bytes that are good during the call only, and may be changed. */
  take(chunk: Buffer): void;
}

/**
 * Has the system put what a socket receives into a buffer that all sockets share, a larger one where much is to come. Otherwise Node allocates 64 KiB for each read, which is most of the garbage of a server that is sent a lot. It is what the option `onread` does for sockets that a
 * program opens itself; for those that it accepts Node has no such option, but the same parts inside. Returns false, and changes
 * nothing, where they are not found: then there are only `data` events. What a socket holds because it is or was paused comes as such in
 * either case. A socket that reads directly stops at once when it is paused, and does not notice its end then; `read(0)` has it go on.
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
    // A paused socket keeps what comes, as any does, until it has enough, and what it keeps goes first.
    if (socket.isPaused() || socket.readableLength > 0) return socket.push(Buffer.from(chunk));
    target.take(chunk);
    return true;
  };
  handle.useUserBuffer(readBuffer(false));
  return true;
}

/** The part of Node's stream handles that reads into given memory. */
interface StreamHandle {
  useUserBuffer(buffer: Buffer): void;
}
