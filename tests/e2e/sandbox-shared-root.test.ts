import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { at, EscapeScene, type EscapeServer, uri } from '../support/escape-fixture.ts';

const STARTS = 60;
const AT_ONCE = 6;
/** Programs that end between two exchanges: too many for one start to be hit by all of its attempts. */
const EXCHANGED_AFTER = 15;

let scene: EscapeScene;
afterEach(() => scene.end());

test(`two servers start ${STARTS} programs each in one writable root in which directories are exchanged, and none is refused`, async () => {
  scene = new EscapeScene('root');
  scene.directory('workspace/nested');
  scene.directory('workspace/.agents');
  const servers = await Promise.all([scene.serve(), scene.serve()]);
  const shared = scene.profile();
  const nested = scene.profile(at(join(scene.workspace, 'nested'), 'write'));
  const failures: unknown[] = [];
  let ended = 0;

  /** What some program outside does that knows nothing of sandboxes. */
  const exchange = () => {
    renameSync(join(scene.workspace, '.agents'), join(scene.outside, `was-${ended}`));
    mkdirSync(join(scene.workspace, '.agents'));
  };
  const startAll = async (server: EscapeServer): Promise<void> => {
    let next = 0;
    const work = async () => {
      for (let run = next++; run < STARTS; run = next++) {
        const script = '! mkdir .git/x 2>/dev/null';
        const options = { cwd: scene.workspace, tty: run % 5 === 0 };
        const ran = await server.run(['/bin/sh', '-c', script], run % 3 === 0 ? nested : shared, options);
        if (ran.exitCode !== 0) failures.push(ran);
        if (++ended % EXCHANGED_AFTER === 0) exchange();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  };
  const writeAll = async ({ client }: EscapeServer, name: string): Promise<void> => {
    for (let run = 0; run < STARTS / 3; run++) {
      const path = uri(join(scene.workspace, `${name}${run}`));
      const sandbox = run % 2 === 0 ? nested : shared;
      await client.call('fs/writeFile', { path, dataBase64: 'eA==', sandbox });
    }
  };

  await Promise.all([
    ...servers.map(startAll),
    ...servers.map((server, index) => writeAll(server, `of-${index}-`)),
  ]);
  expect(failures).toEqual([]);
  expect(ended).toBe(2 * STARTS);
  const left = readdirSync(scene.workspace).filter((name) => !name.startsWith('of-'));
  expect(left.sort()).toEqual(['.agents', 'nested']);
  for (const name of left) expect(readdirSync(join(scene.workspace, name))).toEqual([]);
});
