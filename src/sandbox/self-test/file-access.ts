import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileSystem } from '../../files/file-system.ts';
import { nativePathOfText } from '../../files/native-path.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import type { Sandbox } from '../sandbox.ts';
import { type Check, failed, ok } from './check.ts';
import { SelfTestFixture } from './fixture.ts';

/** Tries permitted and forbidden file operations under a sandbox, as a client would request them. */
export async function tryFileAccess(spawner: Spawner, sandbox: Pick<Sandbox, 'files'>): Promise<Check[]> {
  const fixture = await SelfTestFixture.open(spawner);
  try {
    const { workspace, outside, secret } = fixture.targets;
    const { fileSystem } = sandbox.files(fixture.policy);
    const read = (path: string) => errorOf(() => readBeginning(fileSystem, path));
    const write = async (path: string, changed: string) => {
      const error = await errorOf(() => writeText(fileSystem, path));
      return (await readFile(changed, 'utf8')) === secret ? (error ?? 'without effect') : null;
    };
    const permitted = await read(join(workspace, '.git/config'));
    if (permitted !== null) return [failed(READ_PERMITTED, permitted, null)];
    const changed = join(outside, 'changed');
    const linked = join(outside, 'linked');
    return [
      ok(READ_PERMITTED, 'allowed'),
      forbidden('write a file outside the workspace', await write(changed, changed)),
      forbidden('write a file through a link', await write(join(workspace, 'link'), linked)),
      // The sandbox has a /dev of its own, so a success would be without effect.
      forbidden(
        'write a file that only the sandbox has',
        await errorOf(() => writeText(fileSystem, OWN_FILE)),
      ),
      forbidden('read a file of a denied directory', await read(join(workspace, 'above/denied/file'))),
    ];
  } finally {
    await rm(OWN_FILE, { force: true });
    await fixture.close();
  }
}

const OWN_FILE = `/dev/shm/exec-server-doctor-${process.pid}`;
const READ_PERMITTED = 'read a file in the workspace';

function forbidden(name: string, error: string | null): Check {
  if (error !== null) return ok(name, `stopped: ${error}`);
  return failed(name, 'it succeeded inside a sandbox', 'do not rely on sandboxes on this machine');
}

async function readBeginning(fileSystem: FileSystem, path: string): Promise<void> {
  const content = await fileSystem.readFile(nativePathOfText(path), { followSymlinks: true });
  try {
    if ((await content.read(Buffer.alloc(1))) === 0) throw new Error('it is empty');
  } finally {
    await content.close();
  }
}

async function writeText(fileSystem: FileSystem, path: string): Promise<void> {
  const waiting = { signal: new AbortController().signal, onWait: () => undefined };
  await fileSystem.writeFile(nativePathOfText(path), Buffer.from('x'), { followSymlinks: true }, waiting);
}

/** The error message of an operation. Null when it succeeds. */
async function errorOf(operation: () => Promise<void>): Promise<string | null> {
  try {
    await operation();
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
