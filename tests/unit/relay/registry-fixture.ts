import { expect } from 'vitest';
import { bearerAuth } from '../../../src/relay/registry-auth.ts';
import { parseRegistryUrl, RegistryClient, type RegistryError } from '../../../src/relay/registry-client.ts';
import { type FakeAnswer, FakeRegistry } from './fake-registry.ts';
import { executorIdentity, harnessIdentity } from './link-fixture.ts';

export const executorKey = executorIdentity.publicKey;
export const harnessKey = harnessIdentity.publicKey;
/** Never aborts. */
export const { signal } = new AbortController();

/** A registry and its client with the token `token-1`. */
export async function openRegistry(base = '', env: Record<string, string> = {}) {
  const registry = await FakeRegistry.open();
  const url = parseRegistryUrl(`${registry.url}${base}`);
  const auth = bearerAuth('token-1', { chatgptAccountId: 'me' });
  return { registry, client: new RegistryClient({ url, environmentId: 'env-1', auth, env }) };
}

/** The error of a connect that gets this answer. */
export async function failure(answer: FakeAnswer): Promise<RegistryError> {
  const { registry, client } = await openRegistry();
  registry.answer = () => answer;
  return client.connect(harnessKey, signal).then(
    () => expect.unreachable(),
    (error: RegistryError) => error,
  );
}
