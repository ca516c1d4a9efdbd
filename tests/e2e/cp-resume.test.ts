import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { newFolder } from '../support/file-trees.ts';
import { hostTree, subtree } from '../support/host-tree.ts';
import { MessageProxy, type PassingMessage } from '../support/message-proxy.ts';
import { CommandUser } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';

const MIB = 1024 * 1024;
const user = new CommandUser();
let folder: string;
beforeEach(() => {
  folder = newFolder(user);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
afterAll(() => user.close());

const at = (name: string) => join(folder, name);
const cp = (...args: string[]) => user.run(['cp', ...args]);

async function copied(...args: string[]) {
  const { code, stdout, stderr } = await cp('--json', ...args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

test('the end of the private server ends the copy, and the same command continues it', async () => {
  writeFileSync(at('sparse'), '');
  truncateSync(at('sparse'), 4096 * MIB);
  mkdirSync(at('there'));
  const run = user.start(['cp', at('sparse'), `:${at('there')}/copy`]);
  await waitFor('a part', () => readdirSync(at('there')).length > 0);
  process.kill(user.serverPid!, 'SIGKILL');
  const { code, stderr } = await run.outcome;
  expect([code, stderr]).toEqual([
    125,
    expect.stringMatching(
      /^exec-server: the private server has ended; .*; run the same command to continue.*\n$/,
    ),
  ]);
  expect(existsSync(at('there/copy'))).toBe(false);
});

describe('a large file', () => {
  const SIZE = 24 * MIB;
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.close());

  const makeLarge = () => {
    const content = randomBytes(SIZE);
    writeFileSync(at('large'), content);
    mkdirSync(at('there'));
    return content;
  };
  /** Where the blocks begin that came after the first connection was lost. */
  const laterOffsets = (proxy: MessageProxy) =>
    proxy.log
      .filter((message) => message.connection > 0 && isBlock(message))
      .map(({ text }) => Number(/"offset":(\d+)/.exec(text.slice(0, 300) + text.slice(-300))![1]));

  test('continues in the same command when the connection is cut', async () => {
    const content = makeLarge();
    const proxy = await MessageProxy.open(server.url, (message) =>
      message.connection === 0 && isBlock(message) && blocksOf(proxy, 0) === 10 ? 'swallow' : 'pass',
    );
    try {
      const { code, stdout } = await cp('--json', at('large'), `${proxy.url}:${folder}/there/large`);
      expect(code).toBe(0);
      expect(JSON.parse(stdout).resumedBytes).toBeGreaterThanOrEqual(5 * MIB);
      expect(readFileSync(at('there/large')).equals(content)).toBe(true);
      expect(readdirSync(at('there'))).toEqual(['large']);
      // What the server had was not sent again.
      expect(Math.min(...laterOffsets(proxy))).toBe(JSON.parse(stdout).resumedBytes);
    } finally {
      await proxy.close();
    }
  });

  test('counts the parts that an interrupted copy of several files leaves', async () => {
    mkdirSync(at('tree'));
    for (const name of ['one', 'two', 'three']) {
      writeFileSync(at(`tree/${name}`), '');
      truncateSync(at(`tree/${name}`), 2 ** 31);
    }
    // The command knows of a part when it has sent the first block for it.
    const parts = () =>
      (existsSync(at('there')) ? readdirSync(at('there')) : []).filter(
        (name) => statSync(at(`there/${name}`)).size > 0,
      );
    const { child, outcome } = user.start(['cp', '-r', at('tree'), `${server.url}:${at('there')}`]);
    await waitFor('two parts', () => parts().length >= 2);
    child.kill('SIGINT');
    const { code, stderr } = await outcome;
    expect(code).toBe(130);
    expect(stderr).toMatch(/tree\/\.' as the source to continue with [23] parts, such as [^ ]*\.part\n$/);
  });

  test.each(['SIGKILL', 'SIGINT'] as const)('continues in the next command after %s', async (signal) => {
    const content = makeLarge();
    let kill = () => {};
    const proxy = await MessageProxy.open(server.url, (message) => {
      if (message.connection > 0 || !isBlock(message) || blocksOf(proxy, 0) < 10) return 'pass';
      kill();
      return 'drop';
    });
    try {
      const target = `${proxy.url}:${folder}/there/large`;
      const first = user.start(['cp', at('large'), target]);
      kill = () => void first.child.kill(signal);
      const outcome = await first.outcome;
      if (signal === 'SIGINT') {
        expect(outcome.code).toBe(130);
        expect(outcome.stderr).toMatch(
          /interrupted; files that were copied are complete; run the same command to continue with the part .*\.part\n$/,
        );
      }
      await waitFor('the part', () => readdirSync(at('there')).every((name) => name.endsWith('.part')));
      const second = await copied(at('large'), target);
      expect(second.resumedBytes).toBeGreaterThanOrEqual(5 * MIB);
      expect(Math.min(...laterOffsets(proxy))).toBe(second.resumedBytes);
      expect(readFileSync(at('there/large')).equals(content)).toBe(true);
      expect(readdirSync(at('there'))).toEqual(['large']);
    } finally {
      await proxy.close();
    }
  });

  test('says how to continue a directory that is there now', async () => {
    mkdirSync(at('dir'));
    writeFileSync(at('dir/file'), 'x');
    let kill = () => {};
    const proxy = await MessageProxy.open(server.url, ({ direction, text }) => {
      if (direction !== 'toServer' || !text.includes('"fs/open"')) return 'pass';
      kill();
      return 'drop';
    });
    try {
      const { child, outcome } = user.start(['cp', '-r', at('dir'), `${proxy.url}:${folder}/there/new`]);
      kill = () => void child.kill('SIGINT');
      expect(await outcome).toMatchObject({
        ...{ code: 130, stdout: '' },
        stderr: `exec-server: interrupted; files that were copied are complete; run it with '${at('dir')}/.' as the source to continue\n`,
      });
    } finally {
      await proxy.close();
    }
  });

  test('continues a download of a process that was killed', async () => {
    const content = makeLarge();
    let kill = () => {};
    const reads = (isLater: boolean) =>
      proxy.log.filter(
        ({ connection, text }) => connection > 0 === isLater && text.includes('"fs/readBlock"'),
      );
    const proxy = await MessageProxy.open(server.url, ({ connection, direction }) => {
      if (connection > 0 || direction === 'toServer' || reads(false).length < 12) return 'pass';
      kill();
      return 'drop';
    });
    try {
      const source = `${proxy.url}:${folder}/large`;
      const first = user.start(['cp', source, at('there/large')]);
      kill = () => void first.child.kill('SIGKILL');
      await first.outcome;
      expect(readdirSync(at('there'))).toEqual([expect.stringMatching(/^\.large\..*\.part$/)]);
      const second = await copied(source, at('there/large'));
      expect(second.resumedBytes).toBeGreaterThanOrEqual(5 * MIB);
      const firstOffset = Number(/"offset":(\d+)/.exec(reads(true)[0]!.text)![1]);
      expect(firstOffset).toBe(second.resumedBytes);
      expect(readFileSync(at('there/large')).equals(content)).toBe(true);
      expect(readdirSync(at('there'))).toEqual(['large']);
    } finally {
      await proxy.close();
    }
  });

  test('starts again when what is there is not its beginning', async () => {
    const content = makeLarge();
    const proxy = await MessageProxy.open(server.url, (message) =>
      message.connection === 0 && isBlock(message) && blocksOf(proxy, 0) === 10 ? 'last' : 'pass',
    );
    const target = `${server.url}:${folder}/there/large`;
    try {
      const first = user.start(['cp', at('large'), `${proxy.url}:${folder}/there/large`]);
      await waitFor('a part', () => readdirSync(at('there')).length > 0 && blocksOf(proxy, 0) >= 10);
      first.child.kill('SIGKILL');
      await first.outcome;
    } finally {
      await proxy.close();
    }
    const [part] = readdirSync(at('there'));
    writeFileSync(at(`there/${part}`), Buffer.alloc(6 * MIB, 'wrong'));
    expect(await copied(at('large'), target)).toMatchObject({ files: 1, bytes: SIZE });
    expect(readFileSync(at('there/large')).equals(content)).toBe(true);
    expect(readdirSync(at('there'))).toEqual(['large']);
  });

  test('leaves nothing on a disk that gets full', async ({ skip }) => {
    const disk = at('disk');
    mkdirSync(disk);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]).status === 0;
    if (!mounted) skip('this system does not allow to mount a tmpfs');
    try {
      makeLarge();
      writeFileSync(at('medium'), randomBytes(5 * MIB));
      writeFileSync(join(disk, 'large'), 'old');
      for (const name of ['large', 'medium']) {
        for (const args of [
          [at(name), `local:${disk}/large`],
          [`local:${at(name)}`, join(disk, 'large')],
        ]) {
          const { code, stderr } = await cp(...args);
          expect([code, stderr]).toEqual([125, expect.stringMatching(/no space left on device/i)]);
          expect(stderr).not.toMatch(/continue with the part/);
          if (name === 'large')
            expect(stderr).toMatch(/; the incomplete copy was removed, so the same command/);
          expect(readdirSync(disk)).toEqual(['large']);
          expect(readFileSync(join(disk, 'large'), 'utf8')).toBe('old');
        }
      }
    } finally {
      spawnSync('umount', ['-l', disk]);
    }
  });
});

describe('a tree of many files', () => {
  const COUNT = 1_200;

  /** Files with several modes, links and odd names, in many directories. */
  const makeTree = () => {
    const names = ['plain', 'line\nbreak', `quotes'"`, '😀', '-rf', 'a:b', '%41', ' ', 'n'.repeat(200)];
    for (let index = 0; index < COUNT; index++) {
      const directory = at(`tree/${index % 40}/${index % 3}`);
      mkdirSync(directory, { recursive: true });
      const path = join(directory, `${names[index % names.length]}${index}`);
      if (index % 10 === 0) symlinkSync(`../${index}`, path);
      else writeFileSync(path, String(index).repeat(index % 50), { mode: 0o400 + (index % 2) * 0o311 });
    }
    // Large enough to leave a part.
    writeFileSync(at('tree/large'), randomBytes(8 * MIB));
  };

  const treeAt = (name: string) => subtree(hostTree([at(name)]), at(name));
  /** A process that was killed leaves the files that it was just writing. A later copy removes them when they are old. */
  const TEMPORARY = /\/\.[^/]*\.exec-server-none\.\d+-\d+\.part$/;

  test.each([
    ['SIGINT', 'an upload', (url: string): [string, string] => [at('tree'), `${url}:${at('there')}`]],
    ['SIGKILL', 'a download', (url: string): [string, string] => [`${url}:${at('tree')}`, at('there')]],
  ] as const)('is complete when it continues after %s ended %s', async (signal, _what, operands) => {
    makeTree();
    const server = await startServer();
    let kill = () => {};
    const opened = () => proxy.log.filter(({ text }) => text.slice(0, 200).includes('"fs/')).length;
    const proxy = await MessageProxy.open(server.url, ({ connection }) => {
      if (connection > 0 || opened() < 300) return 'pass';
      kill();
      return 'drop';
    });
    try {
      const [source, destination] = operands(proxy.url);
      const first = user.start(['cp', '-r', source, destination]);
      kill = () => void first.child.kill(signal);
      const { code, stderr } = await first.outcome;
      if (signal === 'SIGINT') {
        expect([code, stderr]).toEqual([
          130,
          expect.stringContaining(`run it with '${source}/.' as the source`),
        ]);
      }
      const done = Object.keys(treeAt('there')).length;
      expect(done).toBeGreaterThan(10);
      expect(done).toBeLessThan(COUNT);
      const [again, target] = operands(server.url);
      const second = await copied('-r', `${again}/.`, target);
      expect(second).toMatchObject({ failed: [], skipped: [], verified: 'sha256' });
      const there = Object.entries(treeAt('there')).filter(([path]) => !TEMPORARY.test(path));
      expect(Object.fromEntries(there)).toEqual(treeAt('tree'));
    } finally {
      await proxy.close();
      await server.close();
    }
  });
});

function isBlock({ direction, text }: PassingMessage): boolean {
  return direction === 'toServer' && text.slice(0, 100).includes('"fs/writeBlock"');
}

function blocksOf(proxy: MessageProxy, connection: number): number {
  return proxy.log.filter((message) => message.connection === connection && isBlock(message)).length;
}
