import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import type { SandboxProfile } from '../../protocol/sandbox.ts';
import { MAX_LISTED_SANDBOX_CHARACTERS } from '../limits.ts';
import type { ListedSandbox } from '../sessions/shared-process.ts';
import type { CheckedStart } from './start-request.ts';

/** How a listing describes the sandbox of a program that runs in one. The server's minimum sandbox only restricts it further. */
export function listedSandbox({ sandbox, enforceManagedNetwork, spec }: CheckedStart): ListedSandbox {
  if (sandbox === null) return { type: 'other' };
  const tmpdir = spec.env.TMPDIR?.startsWith('/') ? [uriOf(spec.env.TMPDIR)] : [];
  if ('permissions' in sandbox) return listedProfile(sandbox, enforceManagedNetwork, tmpdir);
  const networkAccess = sandbox.networkAccess || enforceManagedNetwork;
  if (sandbox.type === 'readOnly') return { type: 'readOnly', networkAccess };
  const { cwd, writableRoots, excludeTmpdirEnvVar, excludeSlashTmp } = sandbox;
  const roots = [
    cwd || uriOf(spec.cwd),
    ...writableRoots,
    ...(excludeTmpdirEnvVar ? [] : tmpdir),
    ...(excludeSlashTmp ? [] : [SLASH_TMP]),
  ];
  return workspaceWrite(roots, networkAccess);
}

function listedProfile(
  { permissions }: SandboxProfile,
  enforceManagedNetwork: boolean,
  tmpdir: readonly string[],
): ListedSandbox {
  if (permissions.type !== 'managed' || permissions.file_system.type !== 'restricted')
    return { type: 'other' };
  const roots: string[] = [];
  const readOnly: string[] = [];
  for (const { path, access } of permissions.file_system.entries) {
    if (access !== 'write') {
      if (path.type === 'path') readOnly.push(path.path);
      continue;
    }
    if (path.type === 'path') roots.push(path.path);
    else if (path.type === 'special' && path.value.kind === 'tmpdir') roots.push(...tmpdir);
    else if (path.type === 'special' && path.value.kind === 'slash_tmp') roots.push(SLASH_TMP);
    else return { type: 'other' };
  }
  return workspaceWrite(roots, permissions.network === 'enabled' || enforceManagedNetwork, readOnly);
}

function workspaceWrite(
  roots: readonly string[],
  networkAccess: boolean,
  readOnly: readonly string[] = [],
): ListedSandbox {
  const characters = [...roots, ...readOnly].reduce((sum, { length }) => sum + length, 0);
  if (characters > MAX_LISTED_SANDBOX_CHARACTERS) return { type: 'other' };
  return {
    type: 'workspaceWrite',
    writableRoots: [...new Set(roots)],
    ...(readOnly.length > 0 && { readOnlyPaths: [...new Set(readOnly)] }),
    networkAccess,
  };
}

const SLASH_TMP = 'file:///tmp';

function uriOf(path: string): string {
  return uriFromPath(nativePathOfText(path));
}
