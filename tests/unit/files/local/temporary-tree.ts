import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type NativePath, nativePathOfBytes } from '../../../../src/files/native-path.ts';

/** The real path of a new directory that is removed at the end of the test. */
export async function temporaryDirectory(): Promise<NativePath> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'files-')));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return nativePathOfBytes(path);
}

/** Names in bytes with their content: text for a file, null for a directory, `{ link }` for a link. */
export type Tree = Readonly<Record<string, string | null | { readonly link: string }>>;

export async function makeTree(root: NativePath, tree: Tree): Promise<void> {
  for (const [name, content] of Object.entries(tree)) {
    const path = join(root, name);
    await mkdir(Buffer.from(content === null ? path : dirname(path), 'latin1'), { recursive: true });
    if (typeof content === 'string') await writeFile(Buffer.from(path, 'latin1'), content);
    else if (content !== null) await symlink(content.link, Buffer.from(path, 'latin1'));
  }
}
