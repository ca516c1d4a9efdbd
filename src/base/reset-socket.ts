/** The part of a TCP socket of Node that a reset needs. */
interface ResettableSocket {
  readonly writableEnded: boolean;
  readonly writableLength: number;
  readonly remoteAddress?: string | undefined;
  destroy(): unknown;
  resetAndDestroy(): unknown;
}

/**
 * Closes a socket with a reset (RST), so that its peer does not take this for a regular end. Once the sending side is being shut down,
 * Node cannot reset a socket and would leak it; the peer gets the regular end of the data then, which is complete.
 */
export function resetSocket(socket: ResettableSocket): void {
  if (socket.writableEnded && socket.writableLength === 0) socket.destroy();
  else socket.resetAndDestroy();
}

/**
 * Whether the end that a socket has just reported is a reset. libuv reports a reset as an end when it arrives together with the last data;
 * the system no longer has a peer then. Not known after the socket has ended its own side. `remoteAddress` must not have been read before,
 * because Node keeps its first value.
 */
export function endedByReset({ writableEnded, remoteAddress }: ResettableSocket): boolean {
  return !writableEnded && remoteAddress === undefined;
}
