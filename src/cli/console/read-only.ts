import { isObject } from '../../base/is-object.ts';
import type { Target } from '../environments/target.ts';
import { RunError } from '../failures.ts';

/**
 * Makes a server restrict a connection: adds `readOnly` to each `initialize`. The message is written again from what was read, so that
 * the server cannot understand it in another way. Throws for a message that is no JSON object.
 */
export function withReadOnly(text: string): string {
  const message: unknown = JSON.parse(text);
  if (!isObject(message)) throw new Error('expected one JSON-RPC object');
  if (message.method !== 'initialize') return JSON.stringify(message);
  const params = isObject(message.params) ? message.params : {};
  const capabilities = isObject(params.capabilities) ? params.capabilities : {};
  return JSON.stringify({
    ...message,
    params: { ...params, capabilities: { ...capabilities, readOnly: true } },
  });
}

/** Rejects with RunError when a server does not restrict connections on request, because it is of an older version or of another kind. */
export async function requireReadOnly(target: Target, signal: AbortSignal): Promise<void> {
  const client = await target.connect({
    clientName: 'exec-server console',
    signal,
    recoveryWindowMs: 0,
    detachedSessionTtlMs: 0,
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
