import { execFile, spawnSync } from 'node:child_process';
import { utimesSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { CLI, Workspace } from '../run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

test('the command drain recognizes a stale pid file in a container that has its own uptime', async ({
  skip,
}) => {
  const uptime = workspace.file('uptime', '5.00 5.00\n');
  const within = ['-Urm', 'sh', '-c', 'mount --bind "$0" /proc/uptime && exec "$@"', uptime];
  if (spawnSync('unshare', [...within, 'true']).status !== 0) skip('no user namespaces');
  const pidFile = workspace.file('pid', `${process.pid}\n`);
  const drain = () =>
    promisify(execFile)('unshare', [...within, process.execPath, CLI, 'drain', '--pid-file', pidFile]);
  await expect(drain()).rejects.toThrow('is no exec-server that can drain');
  utimesSync(pidFile, 0, 0);
  await expect(drain()).rejects.toThrow('is stale');
});
