import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { localPath } from '../../../../src/client/files/transfer/local-files.ts';
import { LocalSource } from '../../../../src/client/files/transfer/local-side.ts';

/** Makes something in the place of a file. */
const REPLACEMENTS: Readonly<Record<string, (path: string) => unknown>> = {
  'a FIFO': (path) => execFileSync('mkfifo', [path]),
  'a directory': (path) => mkdirSync(path),
  'a socket': (path) =>
    new Promise((resolve) => {
      const server = createServer().listen(path, () => resolve(null));
      onTestFinished(() => void server.close());
    }),
};

test.each(Object.keys(REPLACEMENTS))(
  'a file that %s replaces after it was listed is no empty file',
  async (kind) => {
    const folder = mkdtempSync(join(tmpdir(), 'local-side-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'data');
    writeFileSync(path, 'data');
    const source = new LocalSource(localPath(folder));
    for await (const item of source.below(() => {})) {
      rmSync(path);
      await REPLACEMENTS[kind]!(path);
      await expect(source.readWhole(item)).rejects.toMatchObject({ message: expect.stringContaining(path) });
      await expect(source.read(item, 0).next()).rejects.toMatchObject({
        message: expect.stringContaining(path),
      });
    }
    expect.assertions(2);
  },
);
