import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connectInMemory, type MemoryConnection, type TestClient } from '../../src/testing/index.ts';

describe.each([true, false])('with fastPaths %s', (fastPaths) => {
  let folder: string;
  let connection: MemoryConnection;
  let client: TestClient;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'file-order-'));
    connection = connectInMemory({ fastPaths });
    client = connection.client;
    await client.handshake();
  });

  afterEach(async () => {
    await connection.close();
    await rm(folder, { recursive: true, force: true });
  });

  const uri = (name: string) => pathToFileURL(join(folder, name)).href;
  const base64 = (text: string) => Buffer.from(text).toString('base64');

  test('a read after a write returns the written content without waiting for the response', async () => {
    const contents: Promise<string>[] = [];
    for (let round = 0; round < 50; round++) {
      const dataBase64 = base64(`round ${round} ${'x'.repeat(round * 1_000)}`);
      void client.call('fs/writeFile', { path: uri('a'), dataBase64 });
      contents.push(client.call('fs/readFile', { path: uri('a') }).then((answer) => answer.dataBase64));
    }
    const expected = contents.map((_, round) => base64(`round ${round} ${'x'.repeat(round * 1_000)}`));
    expect(await Promise.all(contents)).toEqual(expected);
  });

  test('a write after a read does not affect the response in progress', async () => {
    const old = Buffer.alloc(12_000_000, 'o');
    await writeFile(join(folder, 'a'), old);
    const [read, , again] = await Promise.all([
      client.call('fs/readFile', { path: uri('a') }),
      client.call('fs/writeFile', { path: uri('a'), dataBase64: base64('new') }),
      client.call('fs/readFile', { path: uri('a') }),
    ]);
    expect(Buffer.from(read.dataBase64, 'base64').equals(old)).toBe(true);
    expect(again.dataBase64).toBe(base64('new'));
  });

  test('a write after a failed read is performed', async () => {
    const [read, written] = await Promise.allSettled([
      client.call('fs/readFile', { path: uri('a') }),
      client.call('fs/writeFile', { path: uri('a'), dataBase64: base64('new') }),
    ]);
    expect([read.status, written.status]).toEqual(['rejected', 'fulfilled']);
  });

  test('a directory exists for the files that follow, and is missing after its removal', async () => {
    const results = await Promise.allSettled([
      client.call('fs/createDirectory', { path: uri('d/e') }),
      client.call('fs/writeFile', { path: uri('d/e/f'), dataBase64: base64('deep') }),
      client.call('fs/copy', { sourcePath: uri('d'), destinationPath: uri('copy'), recursive: true }),
      client.call('fs/rename', { sourcePath: uri('copy'), destinationPath: uri('moved') }),
      client.call('fs/remove', { path: uri('d') }),
      client.call('fs/getMetadata', { path: uri('d/e/f') }),
      client.call('fs/readFile', { path: uri('moved/e/f') }),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
  });

  test('created parent directories exist for the requests that follow', async () => {
    const rounds = Array.from({ length: 50 }, (_, round) => [
      client.call('fs/createDirectory', { path: uri(`made${round}/b/c/d/e`) }),
      client.call('fs/writeFile', { path: uri(`made${round}/f`), dataBase64: '' }),
    ]);
    expect(await Promise.all(rounds.flat())).toHaveLength(100);
  });

  test('a handle can be used, closed and opened again without waiting for responses', async () => {
    const block = (text: string, offset: number) =>
      client.call('fs/writeBlock', { handleId: 'w', offset, chunk: base64(text) });
    await Promise.all([
      client.call('fs/open', { handleId: 'w', path: uri('one'), mode: 'replace' }),
      block('he', 0),
      block('llo', 2),
      client.call('fs/close', { handleId: 'w' }),
      client.call('fs/open', { handleId: 'w', path: uri('two'), mode: 'atomicReplace' }),
      block('world', 0),
      client.call('fs/close', { handleId: 'w' }),
      client
        .call('fs/readFile', { path: uri('two') })
        .then(({ dataBase64 }) => expect(dataBase64).toBe(base64('world'))),
    ]);
    expect(await readFile(join(folder, 'one'), 'utf8')).toBe('hello');
  });

  test('blocks read through a handle follow writes to its path', async () => {
    await writeFile(join(folder, 'a'), 'old');
    await client.call('fs/open', { handleId: 'r', path: uri('a') });
    void client.call('fs/writeFile', { path: uri('a'), dataBase64: base64('new') });
    const { chunk } = await client.call('fs/readBlock', { handleId: 'r', offset: 0, len: 3 });
    expect(chunk).toBe(base64('new'));
  });

  test('a started program sees the files written before', async () => {
    const script = uri('script.sh');
    void client.call('fs/writeFile', {
      path: script,
      dataBase64: base64(`echo ${'padding'.repeat(10_000)}\n`),
    });
    void client.call('process/start', {
      processId: 'p',
      argv: ['/bin/sh', join(folder, 'script.sh')],
      cwd: uri(''),
      env: {},
      tty: false,
    });
    const events = await client.closedProcess('p');
    expect(events.bytes('stdout').toString()).toBe(`${'padding'.repeat(10_000)}\n`);
  });

  test('configuration and capabilities are read after the writes before', async () => {
    const home = process.env.CODEX_HOME;
    process.env.CODEX_HOME = folder;
    try {
      for (let round = 0; round < 20; round++) {
        const dataBase64 = base64(`model = "${round}"\n${'# padding\n'.repeat(10_000)}`);
        void client.call('fs/writeFile', { path: uri('config.toml'), dataBase64 });
        const params = { cwd: uri(''), configPaths: [['model']], requirementsPaths: [] };
        const read = await client.call('environmentConfig/read', params);
        expect(JSON.stringify(read)).toContain(`\\"${round}\\"`);
      }
      const skill = (name: string) => base64(`---\nname: ${name}\ndescription: d\n---\n`);
      await client.call('fs/createDirectory', { path: uri('skills/s'), recursive: true });
      for (let round = 0; round < 20; round++) {
        void client.call('fs/writeFile', { path: uri('skills/s/SKILL.md'), dataBase64: skill(`s${round}`) });
        const found = await client.call('capabilities/discoverV2', { cwd: uri('') });
        expect(JSON.stringify(found)).toContain(`s${round}`);
      }
    } finally {
      if (home === undefined) delete process.env.CODEX_HOME;
      else process.env.CODEX_HOME = home;
    }
  });

  test('a write that waits for a FIFO reader delays no other request, also not the start of the reader', async () => {
    const fifo = join(folder, 'fifo');
    const argv = ['/bin/sh', '-c', 'mkfifo "$0" && echo made', fifo];
    await client.call('process/start', {
      processId: 'mk',
      argv,
      cwd: uri(''),
      env: { PATH: '/usr/bin:/bin' },
      tty: false,
    });
    await client.closedProcess('mk');
    const written = client.call('fs/writeFile', { path: uri('fifo'), dataBase64: base64('through') });
    expect((await client.call('fs/getMetadata', { path: uri('fifo') })).isFile).toBe(false);
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
    const cat = ['/bin/cat', fifo];
    await client.call('process/start', { processId: 'cat', argv: cat, cwd: uri(''), env: {}, tty: false });
    expect((await client.closedProcess('cat')).bytes('stdout').toString()).toBe('through');
    expect(await written).toEqual({});
  });

  test('an abandoned replacement leaves the old file and no temporary file', async () => {
    await writeFile(join(folder, 'kept'), 'old');
    await client.call('fs/open', { handleId: 'w', path: uri('kept'), mode: 'atomicReplace' });
    await client.call('fs/writeBlock', { handleId: 'w', offset: 0, chunk: base64('new') });
    await client.call('fs/close', { handleId: 'w', discard: true });
    expect(await readFile(join(folder, 'kept'), 'utf8')).toBe('old');
    const { entries } = await client.call('fs/readDirectory', { path: uri('') });
    expect(entries.map(({ fileName }) => fileName)).toEqual(['kept']);
  });
});
