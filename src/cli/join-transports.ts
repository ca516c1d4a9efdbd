import { type BytesMessage, CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import { UnansweredRequests } from './unanswered-requests.ts';

/** What happens to the messages that pass. */
interface JoinOptions {
  /** Changes the messages of the first transport. When it throws, both are closed. */
  readonly rewrite?: (text: string) => string;
  /**
   * How long the first transport waits for the next answer after it has sent its last request. Its peer may be gone. Without it the
   * transport does not wait.
   */
  readonly answerTimeoutMs?: number;
}

/**
 * Passes messages between two transports in both directions. A peer that does not read stops the other one. When one side ends, the other
 * ends too. Resolves when both have closed, with the number of requests that were left without an answer after the
 * first has ended.
 */
export async function joinTransports(
  first: Transport,
  second: Transport,
  { rewrite = (text) => text, answerTimeoutMs }: JoinOptions = {},
): Promise<number> {
  const requests = answerTimeoutMs === undefined ? null : new UnansweredRequests();
  const sent = (text: string) => {
    const rewritten = rewrite(text);
    requests?.sent(rewritten);
    return rewritten;
  };
  const received = (text: string) => {
    requests?.received(text);
    return text;
  };
  let hasEnded = false;
  const finished = () => {
    hasEnded = true;
    return requests?.allAnswered(answerTimeoutMs!);
  };
  const joined = Promise.all([forward(first, second, sent, finished), forward(second, first, received)]);
  if (carriesBytes(first) && carriesBytes(second)) {
    first.acceptBytes?.();
    second.acceptBytes?.();
  }
  await joined;
  return hasEnded ? (requests?.count ?? 0) : 0;
}

/** Whether a transport has binary messages. */
export function carriesBytes({ sendBytes }: Transport): boolean {
  return sendBytes !== undefined;
}

/** `finished` resolves when the end of `from` may be passed on. */
function forward(
  from: Transport,
  to: Transport,
  rewrite: (text: string) => string,
  finished: () => Promise<void> | undefined = () => undefined,
): Promise<void> {
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
      ended: async () => {
        await finished();
        to.close({ code: CloseCode.goingAway, reason: 'the other side has ended' });
      },
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
