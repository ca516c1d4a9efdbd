import { type BytesMessage, CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';

/**
 * Passes messages between two transports in both directions, without reading them. A peer that does not read stops the other one. When
 * one side ends, the other ends too. Resolves when both have closed. `rewrite` changes the messages of the first; when it throws, both
 * are closed.
 */
export async function joinTransports(
  first: Transport,
  second: Transport,
  rewrite: (text: string) => string = (text) => text,
): Promise<void> {
  const joined = Promise.all([forward(first, second, rewrite), forward(second, first, (text) => text)]);
  if (carriesBytes(first) && carriesBytes(second)) {
    first.acceptBytes?.();
    second.acceptBytes?.();
  }
  await joined;
}

/** Whether a transport has binary messages. */
export function carriesBytes({ sendBytes }: Transport): boolean {
  return sendBytes !== undefined;
}

function forward(from: Transport, to: Transport, rewrite: (text: string) => string): Promise<void> {
  const pass = (send: () => boolean) => {
    try {
      if (!send()) from.setReceiving(false);
    } catch (error) {
      from.close({ code: CloseCode.policyViolation, reason: (error as Error).message });
    }
  };
  return new Promise((resolve) => {
    from.open({
      message: (text) => pass(() => to.send(rewrite(text))),
      bytesMessage: (message: BytesMessage) => {
        const { text, bytes, release } = message;
        pass(() => to.sendBytes!({ text: rewrite(text), bytes }, () => release?.()));
      },
      undecodable: (reason) => from.close({ code: CloseCode.protocolError, reason }),
      // `from` can be written to again, so `to` may be read again.
      drained: () => to.setReceiving(true),
      ended: () => to.close({ code: CloseCode.normal, reason: 'the other side has ended' }),
      closed: (reason) => {
        to.close(sendable(reason));
        resolve();
      },
    });
  });
}

/** Codes that describe a lost connection cannot be sent (RFC 6455, section 7.4.1). */
function sendable({ code, reason }: CloseReason): CloseReason {
  const isSendable =
    code >= 3_000 || (code >= 1_000 && code <= 1_014 && ![1_004, 1_005, 1_006].includes(code));
  if (isSendable) return { code, reason };
  return { code: CloseCode.tryAgainLater, reason: reason || 'the connection of the other side was lost' };
}
