import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { FileChanges } from '../../src/client/backend.ts';
import { RemoteFileSystem } from '../../src/client/files/remote-file-system.ts';
import { LocalEnvironment } from '../../src/environment/local-environment.ts';
import {
  type ConnectedClient,
  inMemory,
  overProxy,
  overStdio,
  overWebSocket,
} from '../support/connected-clients.ts';
import { type FilesUnderTest, fileSuite } from '../support/file-suite.ts';
import { overRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

fileSuite('files of this machine', async () => {
  const environment = new LocalEnvironment();
  return { files: environment.fileSystem, close: () => environment.dispose() };
});

fileSuite('files in memory', () => remote(inMemory()));
fileSuite('files over a websocket', () => remote(overWebSocket()));
fileSuite('files without fast paths', () => remote(overWebSocket(['--no-fast-paths'])));
fileSuite('files over stdio', () => remote(overStdio()));
fileSuite('files over a relay', () => remote(overRelay()));

async function remote(connecting: Promise<ConnectedClient>): Promise<FilesUnderTest> {
  const { client, close } = await connecting;
  return { files: new RemoteFileSystem(client), close };
}

describe('files on a lost connection', () => {
  let link: Awaited<ReturnType<typeof overProxy>>;
  let files: RemoteFileSystem;
  let folder: string;

  beforeEach(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'lost-link-')));
    link = await overProxy();
    files = new RemoteFileSystem(link.client);
  });

  afterEach(async () => {
    await link.close();
    rmSync(folder, { recursive: true });
  });

  const uri = (name: string) => `file://${join(folder, name)}`;

  test('reads and writes wait for the recovery', async () => {
    writeFileSync(join(folder, 'file'), 'x');
    link.proxy.interrupt();
    await waitFor('the client to notice', () => link.client.state === 'recovering');
    const size = files.getMetadata(uri('file'));
    const written = files.writeFile(uri('new'), 'y');
    link.proxy.restore();
    expect(await size).toMatchObject({ size: 1 });
    await written;
    expect(await files.readFileText(uri('new'))).toBe('y');
  });

  test('a stream of blocks fails', async () => {
    writeFileSync(join(folder, 'file'), Buffer.alloc(3 * 1024 * 1024));
    const blocks = files.readFileStream(uri('file'));
    await blocks.next();
    link.proxy.drop();
    await expect(blocks.next()).rejects.toMatchObject({ kind: 'brokenPipe' });
  });

  test('a replacement fails and leaves the old file', async () => {
    writeFileSync(join(folder, 'file'), 'old');
    const content = async function* () {
      yield Buffer.alloc(1024 * 1024);
      link.proxy.drop();
      yield Buffer.alloc(1024 * 1024);
    };
    await expect(files.replaceFile(uri('file'), content())).rejects.toMatchObject({ kind: 'brokenPipe' });
    expect(await files.readFileText(uri('file'))).toBe('old');
    const entries = () => files.readDirectory(uri('.'));
    await waitFor('the end of the temporary file', async () => (await entries()).length === 1);
  });

  test('a watch continues and reports an overflow', async () => {
    const watch = await files.watch(uri('.'), { debounceMs: 1 });
    const news = watch[Symbol.asyncIterator]();
    const next = async () => (await news.next()).value as FileChanges;
    link.proxy.drop();
    expect(await next()).toEqual({ changes: [], overflow: true });
    writeFileSync(join(folder, 'new'), 'x');
    expect((await next()).changes[0]).toEqual({ path: uri('new'), kind: 'created' });
    await watch.close();
  });

  test('a watch ends with the client', async () => {
    const watch = await files.watch(uri('.'));
    const ended = expect(watch[Symbol.asyncIterator]().next()).rejects.toMatchObject({ kind: 'closed' });
    await link.client.close();
    await ended;
  });
});
