import { afterEach, describe, expect, test } from 'vitest';
import type { Environment } from '../../src/environment/environment.ts';
import { EnvironmentManager } from '../../src/environment/manager.ts';
import { startServer } from '../../src/testing/index.ts';
import { webServer } from '../support/web-servers.ts';

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** The environment, and a web server whose response begins and does not end. */
async function fixture(id: 'local' | 'remote'): Promise<{ environment: Environment; url: string }> {
  const server = await startServer();
  cleanUps.push(() => server.close());
  const manager = new EnvironmentManager({
    environments: [{ id: 'remote', transport: { type: 'websocket', url: server.url } }],
    default: id,
    includeLocal: true,
  });
  cleanUps.push(() => manager.dispose());
  const web = await webServer((_request, response) => void response.write('first'));
  cleanUps.push(() => web.close());
  return { environment: manager.require(id), url: web.url };
}

async function textOf(body: AsyncIterable<Uint8Array>, onPiece = () => {}): Promise<string> {
  let text = '';
  for await (const piece of body) {
    text += Buffer.from(piece).toString();
    onPiece();
  }
  return text;
}

describe.each(['local', 'remote'] as const)('a stream of the %s environment', (id) => {
  test('ends without an error when it is cancelled, before or during reading', async () => {
    const { environment, url } = await fixture(id);
    const unread = await environment.http.stream({ url });
    unread.cancel();
    expect(await textOf(unread.body)).toBe('');
    const { body, cancel } = await environment.http.stream({ url });
    expect(await textOf(body, cancel)).toBe('first');
  });

  test('fails with its timeout when it takes too long', async () => {
    const { environment, url } = await fixture(id);
    const { body } = await environment.http.stream({ url }, { timeoutMs: 2_000 });
    await expect(textOf(body)).rejects.toMatchObject({ kind: 'timeout' });
    const owner = new AbortController();
    const aborted = await environment.http.stream({ url }, { signal: owner.signal });
    const reading = textOf(aborted.body, () => owner.abort());
    await expect(reading).rejects.toMatchObject({ kind: 'aborted' });
  });

  test('fails as closed when the environment is closed', async () => {
    const { environment, url } = await fixture(id);
    const { body } = await environment.http.stream({ url });
    const reading = textOf(body, () => void environment.dispose());
    await expect(reading).rejects.toMatchObject({ kind: 'closed' });
  });
});
