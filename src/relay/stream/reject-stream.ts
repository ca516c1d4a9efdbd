import { CloseCode, type Transport } from '../../transport/transport.ts';

/** Closes a stream that nobody has opened; otherwise it would wait for that for ever. */
export function rejectStream(stream: Transport, reason: string): void {
  const ignore = () => {};
  stream.open({ message: ignore, undecodable: ignore, drained: ignore, ended: ignore, closed: ignore });
  stream.close({ code: CloseCode.tryAgainLater, reason });
}
