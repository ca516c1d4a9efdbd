import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { HELPER_START_ATTEMPTS } from '../../src/sandbox/files/limits.ts';
import { at, EscapeFixture, type EscapeServer, uri } from '../support/escape-fixture.ts';

const STARTS = 60;
const AT_ONCE = 6;
/** Programs that end between two swaps: so many that no start is hit in all of its attempts. */
const EXCHANGED_AFTER = 15;

let fixture: EscapeFixture;
afterEach(() => fixture.end());

test(`two servers start ${STARTS} programs each in one writable root in which directories are swapped, and none is refused`, async () => {
  fixture = new EscapeFixture('root');
  fixture.directory('workspace/nested');
  fixture.directory('workspace/.agents');
  const servers = await Promise.all([fixture.serve(), fixture.serve()]);
  const shared = fixture.profile();
  const nested = fixture.profile(at(join(fixture.workspace, 'nested'), 'write'));
  const failures: unknown[] = [];
  let ended = 0;
  let exchanged = 0;
  /** The writes that have begun, with the number of exchanges since then. */
  const writes = new Set<{ exchanges: number }>();

  /** What a program outside of all sandboxes does. No write is hit in all of its attempts, however long they take. */
  const exchange = () => {
    for (const { exchanges } of writes) if (exchanges === HELPER_START_ATTEMPTS - 1) return;
    for (const write of writes) write.exchanges++;
    exchanged++;
    renameSync(join(fixture.workspace, '.agents'), join(fixture.outside, `was-${ended}`));
    mkdirSync(join(fixture.workspace, '.agents'));
  };
  const startAll = async (server: EscapeServer): Promise<void> => {
    let next = 0;
    const work = async () => {
      for (let run = next++; run < STARTS; run = next++) {
        const script = '! mkdir .git/x 2>/dev/null';
        const options = { cwd: fixture.workspace, tty: run % 5 === 0 };
        const ran = await server.run(['/bin/sh', '-c', script], run % 3 === 0 ? nested : shared, options);
        if (ran.exitCode !== 0) failures.push(ran);
        if (++ended % EXCHANGED_AFTER === 0) exchange();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  };
  const writeAll = async ({ client }: EscapeServer, name: string): Promise<void> => {
    for (let run = 0; run < STARTS / 3; run++) {
      const path = uri(join(fixture.workspace, `${name}${run}`));
      const sandbox = run % 2 === 0 ? nested : shared;
      const write = { exchanges: 0 };
      writes.add(write);
      await client.call('fs/writeFile', { path, dataBase64: 'eA==', sandbox });
      writes.delete(write);
    }
  };

  await Promise.all([
    ...servers.map(startAll),
    ...servers.map((server, index) => writeAll(server, `of-${index}-`)),
  ]);
  expect(failures).toEqual([]);
  expect(ended).toBe(2 * STARTS);
  expect(exchanged).toBeGreaterThan(0);
  const left = readdirSync(fixture.workspace).filter((name) => !name.startsWith('of-'));
  expect(left.sort()).toEqual(['.agents', 'nested']);
  for (const name of left) expect(readdirSync(join(fixture.workspace, name))).toEqual([]);
});
