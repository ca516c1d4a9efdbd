import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ServerProcess, startServerProcess, type TestClient } from '../../src/testing/index.ts';

const FILES = 1_000;
const AT_ONCE = 8;
const fileName = (index: number) => `file-${index}`;
const oldContent = (index: number) => `old ${index}\n`.repeat(500);
const newContent = (index: number) => `new ${index}\n`.repeat(700);

let folder: string;
const servers: ServerProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'atomic-replace-'));
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  rmSync(folder, { recursive: true });
});

async function start(): Promise<[ServerProcess, TestClient]> {
  const server = await startServerProcess();
  servers.push(server);
  return [server, await server.connect()];
}

const uri = (name: string) => pathToFileURL(join(folder, name)).href;
const isTemporary = (name: string) => /^\..*\.exec-server-.*\.tmp$/.test(name);

/** Opens a replacement and writes half of it. */
async function beginReplacing(client: TestClient, name: string): Promise<void> {
  await client.call('fs/open', { handleId: name, path: uri(name), mode: 'atomicReplace' });
  await client.call('fs/writeBlock', { handleId: name, offset: 0, chunk: base64('half') });
}

/** Sends a whole replacement without waiting for responses in between. */
async function replaceFile(client: TestClient, name: string, content: string): Promise<void> {
  const middle = content.length / 2;
  await Promise.all([
    client.call('fs/open', { handleId: name, path: uri(name), mode: 'atomicReplace' }),
    client.call('fs/writeBlock', { handleId: name, offset: 0, chunk: base64(content.slice(0, middle)) }),
    client.call('fs/writeBlock', { handleId: name, offset: middle, chunk: base64(content.slice(middle)) }),
    client.call('fs/close', { handleId: name }),
  ]);
}

/** Replaces all files, some concurrently, until one fails. Calls `onReplaced` after each. */
async function replaceFiles(client: TestClient, onReplaced: (index: number) => void): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < FILES) {
      const index = next++;
      await replaceFile(client, fileName(index), newContent(index));
      onReplaced(index);
    }
  };
  await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

describe('a server that is killed during 1,000 replacements', () => {
  test.each([1, 150, 480, 910])(
    'after %d responses leaves each file old or new, as a whole',
    async (killAfter) => {
      for (let index = 0; index < FILES; index++) {
        writeFileSync(join(folder, fileName(index)), oldContent(index));
      }
      const [server, client] = await start();
      const exited = once(server.process, 'exit');
      await beginReplacing(client, 'never-finished');
      const replaced: number[] = [];
      await replaceFiles(client, (index) => {
        replaced.push(index);
        if (replaced.length === killAfter) server.process.kill('SIGKILL');
      });
      await exited;

      expect(replaced.length).toBeGreaterThanOrEqual(killAfter);
      expect(replaced.length).toBeLessThan(FILES);
      for (let index = 0; index < FILES; index++) {
        const whole = replaced.includes(index) ? [newContent(index)] : [oldContent(index), newContent(index)];
        expect(whole).toContain(readFileSync(join(folder, fileName(index)), 'utf8'));
      }
      const files = Array.from({ length: FILES }, (_, index) => fileName(index)).sort();
      const left = readdirSync(folder);
      expect(left.filter((name) => !isTemporary(name)).sort()).toEqual(files);
      expect(left.some((name) => name.startsWith('.never-finished.'))).toBe(true);

      const [, nextClient] = await start();
      await replaceFile(nextClient, fileName(0), 'last');
      expect(readdirSync(folder).sort()).toEqual(files);
      expect(readFileSync(join(folder, fileName(0)), 'utf8')).toBe('last');
    },
  );
});

test('a connection that is lost before the close leaves the old file and no temporary file', async () => {
  writeFileSync(join(folder, 'f'), 'old');
  const [, client] = await start();
  await beginReplacing(client, 'f');
  expect(readdirSync(folder)).toHaveLength(2);
  await client.drop();
  await expect.poll(() => readdirSync(folder)).toEqual(['f']);
  expect(readFileSync(join(folder, 'f'), 'utf8')).toBe('old');
});
