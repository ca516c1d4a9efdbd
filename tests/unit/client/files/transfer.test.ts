import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import type { ExecutorFileSystem } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { NodeFiles } from '../../../../src/client/files/node-files.ts';
import { Transfer } from '../../../../src/client/files/transfer/transfer.ts';
import {
  TRANSFER_CONCURRENCY,
  TRANSFER_LISTED_PATHS,
  TRANSFER_RETRIES,
} from '../../../../src/client/limits.ts';
import { LocalEnvironment } from '../../../../src/environment/local-environment.ts';
import { Scratch } from '../../files/local/scratch.ts';

const environment = new LocalEnvironment();
afterAll(() => environment.dispose());
const scratch = new Scratch();
const at = (name: string): string => scratch.at(name);
const real = environment.fileSystem;

/** The files of this machine, with some operations replaced. */
function filesWith(operations: Partial<ExecutorFileSystem>): NodeFiles {
  return new NodeFiles({ fileSystem: { ...real, ...operations }, defaultDirectory: async () => null });
}

const unsupported = async () => {
  throw new ClientError('unsupported', 'the server cannot do that');
};
const inPlaceOnly: ExecutorFileSystem['replaceFile'] = (path, content, options) =>
  options?.atomic === false ? real.replaceFile(path, content, options) : unsupported();

function makeTree(files: number): void {
  mkdirSync(at('source/empty'), { recursive: true });
  for (let index = 0; index < files; index++) writeFileSync(at(`source/file${index}`), `content ${index}`);
}

test('says that nothing was compared where the server cannot hash', async () => {
  makeTree(2);
  const files = filesWith({ hash: unsupported });
  expect(await files.upload(at('source'), at('up'))).toMatchObject({ files: 2, verified: 'unsupported' });
  expect(await files.download(at('up'), at('down'))).toMatchObject({ files: 2, verified: 'unsupported' });
  expect(await files.upload(at('source'), at('up'), { verify: false })).toMatchObject({ verified: 'off' });
});

test('renames a temporary file where the server refuses atomic replacements', async () => {
  makeTree(2);
  const refusing = filesWith({
    replaceFile: async (path, content, options) => {
      if (options?.atomic === false) return real.replaceFile(path, content, options);
      throw new ClientError('invalidInput', 'an atomic replacement always follows symbolic links');
    },
  });
  const result = await refusing.upload(at('source'), at('up'));
  expect(result).toMatchObject({ files: 2, atomic: true, verified: 'sha256' });
  expect(readdirSync(at('up')).sort()).toEqual(['empty', 'file0', 'file1']);
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
      running--;
    },
  });
  await files.upload(at('source'), at('up'));
  expect(most).toBe(TRANSFER_CONCURRENCY);
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

test.each(['..', '../../escaped', '%2E%2E', 'a%2F..%2F..%2Fescaped', 'nul%00', '%ZZ/..', '', 'a/b'])(
  'a download refuses the name %j from a server',
  async (name) => {
    mkdirSync(at('source'));
    const files = filesWith({
      walk: async (path) => ({
        entries: [{ path: `${path}/${name}`, kind: 'file' }],
        errors: [],
        truncated: false,
      }),
    });
    await expect(files.download(at('source'), at('target/inner'))).rejects.toMatchObject({
      kind: 'protocol',
      message: expect.stringContaining('is not an entry of'),
    });
    expect(readdirSync(at('target'))).toEqual(['inner']);
    expect(readdirSync(at('target/inner'))).toEqual([]);
  },
);

test('a download refuses an entry of another directory from a server', async () => {
  mkdirSync(at('source'));
  const files = filesWith({
    walk: async () => ({
      entries: [{ path: 'file:///etc/passwd', kind: 'file' }],
      errors: [],
      truncated: false,
    }),
  });
  await expect(files.download(at('source'), at('target'))).rejects.toMatchObject({ kind: 'protocol' });
});

test('the lists of a result are limited, its numbers are exact', async () => {
  const files = filesWith({});
  const result = await Transfer.run(files, {}, async (transfer) => {
    for (let index = 0; index <= TRANSFER_LISTED_PATHS; index++) {
      transfer.skip('path', 'reason');
      transfer.followLink('path');
      await transfer.file('path', 0, async () => {});
    }
  });
  expect([result.skipped.length, result.followedLinks.length, result.files]).toEqual([
    TRANSFER_LISTED_PATHS,
    TRANSFER_LISTED_PATHS,
    TRANSFER_LISTED_PATHS + 1,
  ]);
});

test('a source that is neither a file nor a directory is refused', async () => {
  const files = filesWith({});
  await expect(files.upload('/dev/null', at('up'))).rejects.toMatchObject({ kind: 'invalidInput' });
  await expect(files.download('/dev/null', at('down'))).rejects.toMatchObject({ kind: 'invalidInput' });
  await expect(files.upload('file://other-host/x', at('up'))).rejects.toMatchObject({ kind: 'invalidInput' });
});
