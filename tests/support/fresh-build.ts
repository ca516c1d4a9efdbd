import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/** Builds the package, which tests of this project run, if a source is newer than the program. */
export default function buildIfNeeded(): void {
  const built = statSync(join(ROOT, 'dist/bin/exec-server.cjs'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isBuilt = (folder: string) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).every(
      (name) => statSync(join(ROOT, folder, name)).mtimeMs <= built,
    );
  if (isBuilt('src') && isBuilt('console')) return;
  execFileSync(process.execPath, ['scripts/prepare.mjs'], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}
