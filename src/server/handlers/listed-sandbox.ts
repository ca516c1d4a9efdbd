import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import { MAX_LISTED_SANDBOX_CHARACTERS } from '../limits.ts';
import type { ListedSandbox } from '../sessions/shared-process.ts';
import type { CheckedStart } from './start-request.ts';

/** How a listing describes the sandbox of a program that runs in one. The server's minimum sandbox only restricts it further. */
export function listedSandbox({ sandbox, enforceManagedNetwork, spec }: CheckedStart): ListedSandbox {
  if (sandbox === null || 'permissions' in sandbox) return { type: 'other' };
  const networkAccess = sandbox.networkAccess || enforceManagedNetwork;
  if (sandbox.type === 'readOnly') return { type: 'readOnly', networkAccess };
  const { cwd, writableRoots, excludeTmpdirEnvVar, excludeSlashTmp } = sandbox;
  const { TMPDIR } = spec.env;
  const roots = [
    cwd || uriOf(spec.cwd),
    ...writableRoots,
    ...(excludeTmpdirEnvVar || !TMPDIR?.startsWith('/') ? [] : [uriOf(TMPDIR)]),
    ...(excludeSlashTmp ? [] : ['file:///tmp']),
  ];
  const characters = roots.reduce((sum, { length }) => sum + length, 0);
  if (characters > MAX_LISTED_SANDBOX_CHARACTERS) return { type: 'other' };
  return { type: 'workspaceWrite', writableRoots: [...new Set(roots)], networkAccess };
}

function uriOf(path: string): string {
  return uriFromPath(nativePathOfText(path));
}
