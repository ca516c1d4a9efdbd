// The folder that is published: the files of one build, and their checksums.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Replaces `target` by the folder `draft`, which is on the same file system, and adds checksums. No file of an earlier build stays. */
export function replaceReleaseFolder(draft, target) {
  writeChecksums(draft);
  rmSync(target, { recursive: true, force: true });
  renameSync(draft, target);
}

/** The format of sha256sum(1), which verifies it with `sha256sum --check`. */
function writeChecksums(folder) {
  const lines = readdirSync(folder)
    .sort()
    .map((name) => {
      const hash = createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex');
      return `${hash}  ${name}\n`;
    });
  writeFileSync(join(folder, 'SHA256SUMS'), lines.join(''));
}
