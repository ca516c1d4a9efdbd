import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { at, denyGlob, EscapeFixture } from '../support/escape-fixture.ts';
import { descriptorsOf, processesWith } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const RUNS = 250;
const AT_ONCE = 8;
const DEATHS = 10;

let fixture: EscapeFixture;
afterEach(() => fixture.end());

/** Every entry below a directory with its type, mode, owner and content. */
function fingerprint(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'latin1' })
    .sort()
    .map((name) => {
      const path = Buffer.from(join(directory, name), 'latin1');
      const stats = lstatSync(path);
      const content = stats.isFile()
        ? createHash('sha256').update(readFileSync(path)).digest('hex')
        : stats.isSymbolicLink()
          ? readlinkSync(path)
          : '';
      return [name, stats.mode.toString(8), stats.uid, stats.gid, stats.nlink, content].join(' ');
    });
}

/** Directories may disappear while they are listed. */
function isAsBefore(before: readonly string[]): boolean {
  try {
    return fingerprint(fixture.path).join('\n') === before.join('\n');
  } catch {
    return false;
  }
}

/** A tree in which sandboxes need placeholders of every kind. */
function furnish(): void {
  fixture.file('workspace/kept/file');
  fixture.file('workspace/a/b/.env');
  fixture.file('workspace/repo/.git/config');
  fixture.directory('workspace/empty');
  mkdirSync(join(fixture.workspace, '.aws'));
  symlinkSync('kept', join(fixture.workspace, 'link'));
}

function profile(): ReturnType<EscapeFixture['profile']> {
  return fixture.profile(
    at(join(fixture.workspace, 'kept'), 'read'),
    at(join(fixture.workspace, 'empty/later/deep'), 'read'),
    at(join(fixture.workspace, 'never'), 'deny'),
    at(join(fixture.workspace, 'a'), 'write'),
    denyGlob(join(fixture.workspace, 'a/**/.env')),
  );
}

test(`${RUNS} sandboxes, half of them killed at some moment, leave the disk as it was`, async () => {
  fixture = new EscapeFixture('root');
  furnish();
  const server = await fixture.serve(['--closed-process-retention', '0']);
  const sandbox = profile();
  await server.run(['/bin/true'], sandbox);
  const before = fingerprint(fixture.path);
  const descriptors = descriptorsOf(server.process.pid!).length;
  let next = 0;
  const work = async () => {
    for (let run = next++; run < RUNS; run = next++) {
      const isKilled = run % 2 === 1;
      const argv = isKilled
        ? ['/bin/sleep', '1000']
        : ['/bin/sh', '-c', 'mkdir .codex; echo x > never; true'];
      const id = await server.start(argv, sandbox, { cwd: fixture.workspace, tty: run % 5 === 0 });
      if (isKilled) {
        // From immediately to long after the program has started: building a sandbox takes about ten milliseconds.
        await new Promise((resolve) => setTimeout(resolve, (run * 7) % 30));
        await server.terminate(id);
      } else {
        await server.ended(id);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  expect(fingerprint(fixture.path)).toEqual(before);
  await waitFor('descriptors to be closed', () => descriptorsOf(server.process.pid!).length <= descriptors);
});

test(`a server that is killed ${DEATHS} times leaves nothing behind, for any workspace name`, async () => {
  fixture = new EscapeFixture('root');
  furnish();
  const hostile = fixture.directory(`workspace/a '"$(touch pwned)\`touch pwned\`;*\\n \\ %s &`);
  const before = fingerprint(fixture.path);
  for (let death = 0; death < DEATHS; death++) {
    const server = await fixture.serve();
    const mark = `47${String(process.pid).padStart(7, '0')}.${death}`;
    const sandboxes = [profile(), fixture.profile(at(hostile, 'write')), profile()];
    await Promise.all(
      sandboxes.map((sandbox) => server.start(['/bin/sleep', mark], sandbox, { cwd: hostile })),
    );
    if (death % 2 === 0) {
      await waitFor(
        'the programs to run',
        () => existsSync(join(hostile, '.codex')) && processesWith(`sleep ${mark}`).length >= 3,
      );
    }
    server.process.kill('SIGKILL');
    await server.client.closed;
    await waitFor('all to be gone', () => processesWith(mark).length === 0);
    await waitFor('the disk to be as it was', () => isAsBefore(before));
  }
  expect(fingerprint(fixture.path)).toEqual(before);
  expect(existsSync('pwned') || existsSync('/pwned')).toBe(false);
});
