import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import { overProxy } from '../support/connected-clients.ts';
import { memoryOf } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const MEGABYTE = 1024 * 1024;
let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'client-files-')));
});
afterEach(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

const at = (path: string) => join(folder, path);
const write = (path: string, content: string | Uint8Array = path) => writeFileSync(at(path), content);
const read = (path: string) => readFileSync(at(path), 'utf8');
const sha256 = (content: string | Uint8Array) => createHash('sha256').update(content).digest('hex');

const TRANSFER = `
  import { ExecServerClient } from ${JSON.stringify(new URL('../../dist/client/index.js', import.meta.url).href)};
  const [url, method, from, to] = process.argv.slice(1);
  const client = await ExecServerClient.connect({ url });
  await client.files.exists('/');
  const before = process.resourceUsage().maxRSS;
  const { bytes, verified } = await client.files[method](from, to);
  console.log(JSON.stringify({ bytes, verified, grown: (process.resourceUsage().maxRSS - before) * 1024 }));
  await client.close();
`;

test('100 MB are transferred both ways in bounded memory, with the hash compared', async () => {
  const server = await startServerProcess();
  try {
    write('large', '');
    truncateSync(at('large'), 100 * MEGABYTE);
    const before = memoryOf(server.process.pid!, 'VmHWM');
    for (const [method, from, to] of [
      ['upload', 'large', 'up'],
      ['download', 'up', 'down'],
    ] as const) {
      const args = ['--input-type=module', '-e', TRANSFER, server.url, method, at(from), at(to)];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      const { bytes, verified, grown } = JSON.parse(stdout) as Record<string, number>;
      expect([bytes, verified]).toEqual([100 * MEGABYTE, 'sha256']);
      expect(grown).toBeLessThan(128 * MEGABYTE);
    }
    expect(memoryOf(server.process.pid!, 'VmHWM') - before).toBeLessThan(128 * MEGABYTE);
    expect(sha256(readFileSync(at('down')))).toBe(sha256(readFileSync(at('large'))));
  } finally {
    await server.close();
  }
});

test('a download that the disk takes only a part of fails, and keeps the old file', async () => {
  const server = await startServerProcess();
  try {
    write('large', Buffer.alloc(1.5 * MEGABYTE, 'content '));
    write('down', 'old');
    // The shell limits the size of files, in blocks of 512 bytes, so that the system takes a part of the second megabyte.
    const limited = [
      '-c',
      'ulimit -f 2560 && exec "$@"',
      'sh',
      process.execPath,
      '--input-type=module',
      '-e',
    ];
    const args = [...limited, TRANSFER, server.url, 'download', at('large'), at('down')];
    await expect(promisify(execFile)('/bin/sh', args)).rejects.toThrow(/cannot write .*: file too large/);
    expect(readFileSync(at('down'), 'utf8')).toBe('old');
    expect(readdirSync(folder).sort()).toEqual(['down', 'large']);
  } finally {
    await server.close();
  }
});

describe('transfers on a lost connection', () => {
  test('a file starts again when the connection is restored', async () => {
    const link = await overProxy();
    try {
      write('large', Buffer.alloc(7 * MEGABYTE, 'content '));
      for (const method of ['upload', 'download'] as const) {
        let reports = 0;
        const result = await link.client.files[method](at('large'), at(method), {
          // After the first block. The client reads at most four blocks ahead, so the rest has not arrived.
          onProgress: () => {
            if (++reports === 1) link.proxy.drop();
          },
        });
        expect(result).toMatchObject({ files: 1, bytes: 7 * MEGABYTE, verified: 'sha256' });
        // One for each block, and one for the file.
        expect(reports).toBeGreaterThan(7 + 1);
        expect(sha256(readFileSync(at(method)))).toBe(sha256(readFileSync(at('large'))));
      }
      await waitFor('the end of temporary files', () => readdirSync(folder).length === 3);
    } finally {
      await link.close();
    }
  });

  test('a transfer fails when the connection is not restored, and keeps the old file', async () => {
    const link = await overProxy();
    const client = await ExecServerClient.connect({ url: link.proxy.url, recoveryWindowMs: 1 });
    try {
      write('large', Buffer.alloc(6 * MEGABYTE));
      write('target', 'old');
      const failing = client.files.upload(at('large'), at('target'), {
        onProgress: ({ fileBytes }) => {
          if (fileBytes === 3 * MEGABYTE) link.proxy.interrupt();
        },
      });
      await expect(failing).rejects.toMatchObject({
        kind: 'brokenPipe',
        message: expect.stringContaining(`cannot upload to ${at('target')}`),
        transferred: [],
      });
      expect(read('target')).toBe('old');
      await waitFor('the end of the temporary file', () => readdirSync(folder).length === 2);
    } finally {
      await client.close();
      await link.close();
    }
  });
});
