import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ServerProcess, startServerProcess } from '../../src/testing/index.ts';

let folder: string;
let mount: ChildProcess;
let server: ServerProcess;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dead-mount-'));
  await mkdir(join(folder, 'dead'));
  const script = fileURLToPath(new URL('../fixtures/dead-mount.py', import.meta.url));
  mount = spawn('python3', [script, join(folder, 'dead')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [said] = (await once(mount.stdout!, 'data')) as [Buffer];
  expect(said.toString()).toMatch(/^mounted/);
});

afterEach(async () => {
  mount.stdin!.end();
  await once(mount, 'exit');
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

const uri = (...names: string[]) => pathToFileURL(join(folder, ...names)).href;

test.each([
  ['with fast paths', []],
  ['without fast paths', ['--no-fast-paths']],
])(
  'operations that hang in the kernel delay neither their own connection nor another, %s',
  async (_, flags) => {
    server = await startServerProcess(flags);
    await writeFile(join(folder, 'alive'), 'yes');
    const stuck = await server.connect();
    const hanging = Promise.allSettled(
      Array.from({ length: 60 }, (_, index) =>
        stuck.call('fs/getMetadata', { path: uri('dead', `${index}`) }),
      ),
    );
    const hangingCopy = stuck.call('fs/copy', {
      sourcePath: uri('dead'),
      destinationPath: uri('copy'),
      recursive: true,
    });
    hangingCopy.catch(() => {});

    expect(await stuck.call('environment/status', {})).toEqual({ status: 'ready' });
    const argv = ['/bin/echo', 'still here'];
    await stuck.call('process/start', { processId: 'p', argv, cwd: uri(), env: {}, tty: false });
    expect((await stuck.closedProcess('p')).bytes('stdout').toString()).toBe('still here\n');

    const other = await server.connect();
    const { dataBase64 } = await other.call('fs/readFile', { path: uri('alive') });
    expect(Buffer.from(dataBase64, 'base64').toString()).toBe('yes');
    // The hash of a file on the dead mount ends when its time is up.
    const { files } = await other.call('fs/hash', {
      paths: [uri('dead', 'x'), uri('alive')],
      timeoutMs: 100,
    });
    expect(files).toEqual([
      { error: { code: -32603, message: 'the file was not hashed within 100 ms' } },
      { sha256: createHash('sha256').update('yes').digest('hex'), size: 3 },
    ]);
    await other.close();
    await stuck.drop();
    await hanging;
  },
);
