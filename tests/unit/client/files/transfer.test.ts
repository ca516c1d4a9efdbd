import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { expect, test } from 'vitest';
import type { ExecutorFileSystem } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import type { ReplacementContent } from '../../../../src/client/executor-file-system.ts';
import { Transfer } from '../../../../src/client/files/transfer/transfer.ts';
import type { TransferProgress } from '../../../../src/client/files/transfer-result.ts';
import {
  TRANSFER_CONCURRENCY,
  TRANSFER_LISTED_PATHS,
  TRANSFER_RETRIES,
  TRANSFER_WHOLE_BYTES,
} from '../../../../src/client/limits.ts';
import { descriptorsOf } from '../../../support/machine.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { transferFixture, unsupported } from './transfer-fixture.ts';

const { at, real, filesWith, environment } = transferFixture();

const inPlaceOnly: ExecutorFileSystem['replaceFile'] = (path, content, options) =>
  options?.atomic === false ? real.replaceFile(path, content, options) : unsupported();

function makeTree(files: number): void {
  mkdirSync(at('source/empty'), { recursive: true });
  for (let index = 0; index < files; index++) writeFileSync(at(`source/file${index}`), `content ${index}`);
}

test('compares sizes, and says so, where the server cannot hash', async () => {
  makeTree(2);
  const files = filesWith({ hash: unsupported });
  expect(await files.upload(at('source'), at('up'))).toMatchObject({ files: 2, verified: 'size' });
  expect(await files.download(at('up'), at('down'))).toMatchObject({ files: 2, verified: 'size' });
  expect(await files.upload(at('source'), at('up'), { verify: false })).toMatchObject({ verified: 'off' });
});

test('fails when a local file changes while it is read, even if its size and modification time stay', async () => {
  const source = at('changing');
  writeFileSync(source, Buffer.alloc(3 * TRANSFER_WHOLE_BYTES, 1));
  const { atime, mtime } = statSync(source);
  let isChanged = false;
  const files = filesWith({
    replaceFile: (path, content, options) =>
      real.replaceFile(
        path,
        async (part) => {
          const from = await (content as Extract<ReplacementContent, (...args: never[]) => unknown>)(part);
          const changing = async function* () {
            for await (const block of from.content) {
              yield block;
              if (isChanged) continue;
              isChanged = true;
              writeFileSync(source, 'changed', { flag: 'r+' });
              utimesSync(source, atime, mtime);
            }
          };
          return { ...from, content: changing() };
        },
        options,
      ),
  });
  await expect(files.upload(source, at('up'))).rejects.toMatchObject({
    kind: 'invalidData',
    message: expect.stringContaining(`${source} of this machine was changed while it was read`),
  });
  expect(readdirSync(at('.'))).not.toContain('up');
  expect(await files.upload(source, at('up'))).toMatchObject({ files: 1, verified: 'sha256' });
  expect(readFileSync(at('up')).equals(readFileSync(source))).toBe(true);
});

test('fails when the file on a server that cannot hash has another size', async () => {
  makeTree(1);
  // A server that loses the last byte of what it writes, or does not send the last byte of what it reads.
  const files = filesWith({
    hash: unsupported,
    replaceFile: async (path, content, options) => {
      const blocks: Uint8Array[] = [];
      for await (const block of content as Iterable<Uint8Array>) blocks.push(Uint8Array.from(block));
      await real.replaceFile(path, [Buffer.concat(blocks).subarray(0, -1)], options);
    },
    readFile: async (path, options) => (await real.readFile(path, options)).subarray(0, -1),
  });
  const different = (message: string) =>
    expect.objectContaining({
      kind: 'invalidData',
      retryable: true,
      message: expect.stringContaining(message),
    });
  await expect(files.upload(at('source/file0'), at('up'))).rejects.toEqual(
    different('on the executor has 8 bytes, not 9'),
  );
  await expect(files.download(at('source/file0'), at('down'))).rejects.toEqual(
    different('on the executor has 9 bytes, not 8'),
  );
  expect(await files.upload(at('source/file0'), at('up'), { verify: false })).toMatchObject({
    verified: 'off',
  });
});

test('renames a temporary file where the server refuses atomic replacements', async () => {
  makeTree(2);
  const temporaries: unknown[] = [];
  const refusing = filesWith({
    replaceFile: async (path, content, options) => {
      if (options?.atomic === false) {
        temporaries.push(path);
        return real.replaceFile(path, content, options);
      }
      throw new ClientError('invalidInput', 'an atomic replacement always follows symbolic links');
    },
  });
  const result = await refusing.upload(at('source'), at('up'));
  expect(result).toMatchObject({ files: 2, atomic: true, verified: 'sha256' });
  expect(readdirSync(at('up')).sort()).toEqual(['empty', 'file0', 'file1']);
  // A name that a server knows, so that it removes what a killed upload leaves.
  const name = expect.stringMatching(/\/up\/\.exec-server-[0-9a-f]{32}\.part$/);
  expect(temporaries).toEqual([name, name]);
});

test('a temporary file that cannot be renamed is removed', async () => {
  makeTree(1);
  mkdirSync(at('up/file0'), { recursive: true });
  const failed = filesWith({ replaceFile: inPlaceOnly }).upload(at('source'), at('up'));
  await expect(failed).rejects.toMatchObject({ kind: 'isDirectory' });
  expect(readdirSync(at('up')).filter((name) => name.endsWith('.part'))).toEqual([]);
});

test('writes in place, and says so, where the server can neither replace nor rename', async () => {
  makeTree(2);
  const files = filesWith({ replaceFile: inPlaceOnly, rename: unsupported });
  expect(await files.upload(at('source'), at('up'))).toMatchObject({ files: 2, atomic: false });
  expect(readFileSync(at('up/file1'), 'utf8')).toBe('content 1');
});

test('fails when the file on the server differs from what was sent or received', async () => {
  makeTree(1);
  const files = filesWith({ hash: async () => [{ sha256: 'f'.repeat(64), size: 9 }] });
  const differs = { kind: 'invalidData', message: expect.stringContaining(`is ${'f'.repeat(64)}, not`) };
  await expect(files.upload(at('source'), at('up'))).rejects.toMatchObject(differs);
  writeFileSync(at('target'), 'old');
  await expect(files.download(at('source/file0'), at('target'))).rejects.toMatchObject(differs);
  expect(readFileSync(at('target'), 'utf8')).toBe('old');
  expect(readdirSync(at('.')).sort()).toEqual(['source', 'target', 'up']);
});

test('transfers a limited number of files at a time', async () => {
  makeTree(TRANSFER_CONCURRENCY * 3);
  let running = 0;
  let most = 0;
  const files = filesWith({
    replaceFile: async (...args) => {
      most = Math.max(most, ++running);
      await real.replaceFile(...args);
      await new Promise(setImmediate);
      running--;
    },
  });
  await files.upload(at('source'), at('up'));
  expect(most).toBeLessThanOrEqual(TRANSFER_CONCURRENCY);
  expect(most).toBeGreaterThan(1);
});

test('gives up on a file whose connection is lost again and again', async () => {
  makeTree(1);
  let attempts = 0;
  const files = filesWith({
    replaceFile: async () => {
      attempts++;
      throw new ClientError('brokenPipe', 'the connection was lost');
    },
  });
  await expect(files.upload(at('source/file0'), at('up'))).rejects.toMatchObject({ kind: 'brokenPipe' });
  expect(attempts).toBe(TRANSFER_RETRIES + 1);
});

const ATTRIBUTES = { kind: 'file', size: 1, mode: 0o644, modifiedAtMs: 0 } as const;

function listing(path: string, name: string) {
  return {
    path,
    attributes: { ...ATTRIBUTES, kind: 'directory' as const },
    entries: [{ name, ...ATTRIBUTES }],
  };
}

test.each(['..', '../../escaped', '%2E%2E', 'a%2F..%2F..%2Fescaped', 'nul%00', '%ZZ/..', '', '日'])(
  'a download refuses the name %j from a server',
  async (name) => {
    mkdirSync(at('source'));
    const files = filesWith({
      list: async ([path]) => ({ listings: [listing(path!, name)], unlisted: [] }),
    });
    await expect(files.download(at('source'), at('target/inner'))).rejects.toMatchObject({
      kind: 'protocol',
      message: expect.stringContaining('is not an entry of'),
    });
    expect(readdirSync(at('target'))).toEqual(['inner']);
    expect(readdirSync(at('target/inner'))).toEqual([]);
  },
);

test('goes on after a directory that cannot be listed, and says so; without onError it fails', async () => {
  mkdirSync(at('source/closed'), { recursive: true });
  writeFileSync(at('source/file'), 'x');
  const error = { code: -32600, message: 'Permission denied (os error 13)' };
  const files = filesWith({
    list: async (paths, options) => {
      if (options?.recursive !== true) return real.list(paths, options);
      const { listings } = await real.list(paths, options);
      return {
        listings: listings.map((one) => (one.path.endsWith('/closed') ? { path: one.path, error } : one)),
        unlisted: [],
      };
    },
  });
  const failed: unknown[] = [];
  const onError = (one: unknown) => void failed.push(one);
  expect(await files.download(at('source'), at('down'), { onError })).toMatchObject({ files: 1, failed: 1 });
  expect(failed).toEqual([
    { path: at('source/closed'), reason: `cannot list ${at('source/closed')}: ${error.message}` },
  ]);
  await expect(files.download(at('source'), at('again'))).rejects.toMatchObject({ kind: 'permissionDenied' });
  await expect(files.attributes(at('none'))).rejects.toMatchObject({ kind: 'notFound' });
});

test('a download refuses an entry of another directory from a server', async () => {
  mkdirSync(at('source'));
  const files = filesWith({
    list: async () => ({ listings: [listing('file:///etc', 'passwd')], unlisted: [] }),
  });
  await expect(files.download(at('source'), at('target'))).rejects.toMatchObject({ kind: 'protocol' });
});

test('the lists of a result are limited, its numbers are exact', async () => {
  const result = await Transfer.run({}, async (transfer) => {
    for (let index = 0; index <= TRANSFER_LISTED_PATHS; index++) {
      transfer.skip('path', 'reason');
      transfer.followLink('path');
      await transfer.file({ shown: 'path', size: 0 }, async () => {});
    }
  });
  expect([result.skipped.length, result.followedLinks.length, result.files]).toEqual([
    TRANSFER_LISTED_PATHS,
    TRANSFER_LISTED_PATHS,
    TRANSFER_LISTED_PATHS + 1,
  ]);
});

test('a download continues the part of an ended process only, and removes old parts', async () => {
  const content = Buffer.alloc(9 * 1024 * 1024, 'abc');
  writeFileSync(at('remote'), content);
  mkdirSync(at('down'));
  let read = 0;
  const files = filesWith({
    readFileStream: async function* (path, options) {
      for await (const block of real.readFileStream(path, options)) {
        read += block.length;
        if (read === 4 * 1024 * 1024) throw new ClientError('disconnected', 'gone');
        yield block;
      }
    },
  });
  await expect(files.download(at('remote'), at('down/file'))).rejects.toMatchObject({
    kind: 'disconnected',
    parts: [
      {
        source: at('remote'),
        path: expect.stringMatching(/\/down\/\.file\.exec-server-\w{32}\.\d+-\d+\.part$/),
      },
    ],
  });
  const [own] = readdirSync(at('down'));
  const [start] = own!.split(`.${process.pid}-`);
  // One of a process that lives, and an old one of a process that does not.
  renameSync(at(`down/${own}`), at(`down/${start}.${process.ppid}-1.part`));
  const old = `.other.exec-server-${'f'.repeat(32)}.999999999-1.part`;
  writeFileSync(at(`down/${old}`), '');
  utimesSync(at(`down/${old}`), 1, 1);
  expect(await files.download(at('remote'), at('down/file'))).toMatchObject({ resumedBytes: 0 });
  expect(readdirSync(at('down')).sort()).toEqual([`${start}.${process.ppid}-1.part`, 'file']);
  renameSync(at(`down/${start}.${process.ppid}-1.part`), at(`down/${start}.999999999-1.part`));
  expect(await files.download(at('remote'), at('down/file'))).toMatchObject({
    resumedBytes: 3 * 1024 * 1024,
  });
  expect(readdirSync(at('down'))).toEqual(['file']);
  expect(readFileSync(at('down/file')).equals(content)).toBe(true);
});

test('a download removes what killed downloads have left in the directory', async () => {
  const left = (pid: number) => `.file.exec-server-none.${pid}-1.part`;
  mkdirSync(at('down'));
  for (const pid of [999_999_999, process.ppid]) {
    writeFileSync(at(`down/${left(pid)}`), 'half');
    utimesSync(at(`down/${left(pid)}`), 1, 1);
  }
  writeFileSync(at(`down/${left(999_999_998)}`), 'may be of another container');
  writeFileSync(at('remote'), 'content');
  await filesWith({}).download(at('remote'), at('down/other'));
  expect(readdirSync(at('down')).sort()).toEqual([left(process.ppid), left(999_999_998), 'other'].sort());
});

test('a source that is neither a file nor a directory is refused', async () => {
  const files = filesWith({});
  await expect(files.upload('/dev/null', at('up'))).rejects.toMatchObject({ kind: 'invalidInput' });
  await expect(files.download('/dev/null', at('down'))).rejects.toMatchObject({ kind: 'invalidInput' });
  await expect(files.upload('file://other-host/x', at('up'))).rejects.toMatchObject({ kind: 'invalidInput' });
});

test('an aborted upload leaves no directory open', async () => {
  makeTree(40);
  const aborter = new AbortController();
  const options = { signal: aborter.signal, onProgress: () => aborter.abort() };
  const uploading = environment.files.upload(at('source'), at('up'), options);
  await expect(uploading).rejects.toMatchObject({ name: 'TransferError', kind: 'aborted' });
  const open = () => descriptorsOf(process.pid).filter((target) => target.startsWith(at('source')));
  // What counts the files ends at its next step.
  await waitFor('the end of the count', () => open().length === 0);
});

test('continues when onProgress throws, and warns', async () => {
  makeTree(1);
  const warning = new Promise<Error>((resolve) => process.once('warning', resolve));
  const onProgress = () => {
    throw new Error('my bar');
  };
  expect(await environment.files.upload(at('source'), at('up'), { onProgress })).toMatchObject({ files: 1 });
  expect((await warning).message).toMatch(/^a listener of onProgress threw: Error: my bar/);
});

test('reports the totals of a file, and those of a tree once it is counted', async () => {
  makeTree(3);
  const totals: unknown[] = [];
  const onProgress = ({ totalFiles, totalBytes }: TransferProgress) => totals.push([totalFiles, totalBytes]);
  await environment.files.upload(at('source/file0'), at('one'), { onProgress });
  expect(new Set(totals.map((pair) => JSON.stringify(pair)))).toEqual(new Set(['[1,9]']));
  totals.length = 0;
  await environment.files.upload(at('source'), at('up'), { onProgress });
  for (const pair of totals) expect(['[3,27]', '[null,null]']).toContain(JSON.stringify(pair));
});

test.each(['upload', 'download'] as const)(
  'the progress of an %s never goes back after cuts',
  async (direction) => {
    const MIB = 1024 * 1024;
    const content = Buffer.alloc(20 * MIB, 'abcdefg');
    writeFileSync(at('source'), content);
    let cuts = 0;
    const cut = async (sent: number) => {
      cuts++;
      const part = at(readdirSync(at('.')).find((name) => name.endsWith('.part'))!);
      await waitFor('the last blocks', () => statSync(part).size === sent);
      // The last blocks are lost with the connection.
      truncateSync(part, sent - 2 * MIB);
      return new ClientError('brokenPipe', 'the connection was lost');
    };
    /** Breaks off three times, each time after some blocks. */
    async function* broken(blocks: AsyncIterable<Uint8Array>, offset = 0) {
      let left = 6;
      let sent = offset;
      for await (const block of blocks) {
        if (cuts < 3 && left-- === 0) throw await cut(sent);
        yield block;
        sent += block.length;
      }
    }
    const files = filesWith({
      readFileStream: (path, options) => broken(real.readFileStream(path, options), options?.offset),
      replaceFile: (path, given, options) => {
        if (typeof given !== 'function') return real.replaceFile(path, given, options);
        const brokenContent: typeof given = async (part) => {
          const { offset, content: blocks } = await given(part);
          return { offset, content: broken(blocks as AsyncIterable<Uint8Array>, offset) };
        };
        return real.replaceFile(path, brokenContent, options);
      },
    });
    const seen: TransferProgress[] = [];
    const result = await files[direction](at('source'), at('target'), {
      onProgress: (one) => seen.push(one),
    });
    expect(cuts).toBe(3);
    expect(result).toMatchObject({ files: 1, bytes: content.length });
    expect(result.resumedBytes).toBeGreaterThan(0);
    expect(result.resumedBytes).toBeLessThan(content.length);
    const bytes = seen.map((one) => one.bytes);
    expect(bytes).toEqual(bytes.toSorted((one, other) => one - other));
    expect(bytes.at(-1)).toBe(content.length);
    for (const { fileBytes, resumedBytes } of seen) {
      expect(fileBytes).toBeLessThanOrEqual(content.length);
      expect(resumedBytes).toBeLessThan(content.length);
    }
    expect(readFileSync(at('target')).equals(content)).toBe(true);
  },
);

test('errors of local files have the kind storage and the code of the system', async () => {
  makeTree(1);
  mkdirSync(at('down/file0'), { recursive: true });
  const { files } = environment;
  const failures: [() => Promise<unknown>, string][] = [
    [() => files.upload(at('none'), at('up')), 'ENOENT'],
    [() => files.download(at('source'), at('source/file0/x')), 'EEXIST'],
    [() => files.download(at('source'), at('down')), 'EISDIR'],
  ];
  for (const [transfer, code] of failures) {
    await expect(transfer()).rejects.toMatchObject({
      name: 'TransferError',
      kind: 'storage',
      cause: { cause: { code } },
    });
  }
  const onError = () => {};
  expect(await files.download(at('source'), at('down'), { onError })).toMatchObject({ failed: 1, files: 0 });
});
