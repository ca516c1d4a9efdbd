import { isObject } from '../../base/is-object.ts';
import type { Target } from '../environments/target.ts';
import { RunError } from '../failures.ts';

/** What a connection through this command must not do. */
interface ConnectionLimits {
  /** Whether the server must restrict the connection. */
  readonly readOnly: boolean;
  /** Whether the line to the server has no binary messages, although the page has them. */
  readonly textOnly: boolean;
}

/**
 * Returns the function that changes the messages of a page: its `initialize` asks the server for `readOnly`, and not for binary messages
 * where they cannot pass. For `readOnly` each message is written again from what was read, so that the server cannot understand it in
 * another way. The function throws for a message that is no JSON object.
 */
export function limitingRewrite({ readOnly, textOnly }: ConnectionLimits): (text: string) => string {
  const limits = { ...(readOnly && { readOnly: true }), ...(textOnly && { binaryMessages: false }) };
  return (text) => {
    const isPassed = !readOnly && !(textOnly && text.includes('"initialize"'));
    return isPassed ? text : withCapabilities(text, limits);
  };
}

function withCapabilities(text: string, limits: object): string {
  const message: unknown = JSON.parse(text);
  if (!isObject(message)) throw new Error('expected one JSON-RPC object');
  if (message.method !== 'initialize') return JSON.stringify(message);
  const params = isObject(message.params) ? message.params : {};
  const capabilities = isObject(params.capabilities) ? params.capabilities : {};
  return JSON.stringify({ ...message, params: { ...params, capabilities: { ...capabilities, ...limits } } });
}

/** Rejects with RunError when a server does not restrict connections on request, because it is of an older version or of another kind. */
export async function requireReadOnly(target: Target, signal: AbortSignal): Promise<void> {
  const client = await target.connect({
    clientName: 'exec-server console',
    signal,
    recoveryWindowMs: 0,
    detachedSessionTtlMs: 0,
    whileDraining: true,
  });
  try {
    const { capabilities } = await client.info();
    if (capabilities?.readOnlyConnections === true) return;
    throw new RunError(
      `${target.name} does not support --read-only; update exec-server there, or leave --read-only out`,
    );
  } finally {
    await client.close();
  }
}
