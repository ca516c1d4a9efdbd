import { CloseCode, type Transport } from '../transport/transport.ts';

/**
 * Passes messages between two transports in both directions, without reading them. A peer that does not read stops the other one. When
 * one side ends, the other ends too. Resolves when both have closed.
 */
export async function joinTransports(first: Transport, second: Transport): Promise<void> {
  await Promise.all([forward(first, second), forward(second, first)]);
}

function forward(from: Transport, to: Transport): Promise<void> {
  return new Promise((resolve) => {
    from.open({
      message: (text) => {
        if (!to.send(text)) from.setReceiving(false);
      },
      undecodable: (reason) => from.close({ code: CloseCode.protocolError, reason }),
      // `from` can be written to again, so `to` may be read again.
      drained: () => to.setReceiving(true),
      ended: () => to.close({ code: CloseCode.normal, reason: 'the other side has ended' }),
      closed: (reason) => {
        to.close(reason);
        resolve();
      },
    });
  });
}
