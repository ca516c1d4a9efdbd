import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureReference, startReference } from '../../scripts/reference.mjs';
import { TestClient } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';

/** Weaknesses of the reference that this server does not have; the e2e tests named perimeter show the counterpart. */
const SECRET = 'secret-4711';
let server: Awaited<ReturnType<typeof startReference>>;
let client: TestClient;

beforeAll(async () => {
  await ensureReference();
  server = await startReference({ env: { MY_SECRET: SECRET, LD_LIBRARY_PATH: '/nowhere' } });
  client = await TestClient.connect(server.url!);
  await client.handshake();
}, 120_000);
afterAll(async () => {
  await client?.close();
  await server?.stop();
});

async function output(processId: string, script: string, more: object = {}): Promise<string> {
  await client.request('process/start', { ...shell(processId, script), ...more });
  return (await client.closedProcess(processId)).text();
}

test('a program can read the secrets of the reference from /proc', async () => {
  expect(await output('environ', 'tr "\\0" "\\n" </proc/$PPID/environ')).toContain(SECRET);
});

test('the reference passes its loader variables to programs', async () => {
  const envPolicy = { inherit: 'all', ignoreDefaultExcludes: false, exclude: [], set: {}, includeOnly: [] };
  expect(await output('loader', 'echo $LD_LIBRARY_PATH', { envPolicy })).toBe('/nowhere\n');
});
