import type { FileSystem } from '../../files/file-system.ts';
import { type NativePath, textOfNativePath } from '../../files/native-path.ts';
import type { Need } from '../../protocol/define.ts';
import { forbidden, printable } from '../../protocol/errors.ts';
import { METHODS, type Method } from '../../protocol/registry.ts';

/** What a connection may do. */
export interface Access {
  readonly exec: boolean;
  readonly files: 'none' | 'read' | 'write';
  /** The directory below which files may be touched; null where all may be. */
  readonly below: NativePath | null;
  /** The same files within these bounds. */
  restrict(files: FileSystem): FileSystem;
}

/** What a connection may do whose token says nothing about it, or that needs none. */
export const FULL_ACCESS: Access = { exec: true, files: 'write', below: null, restrict: (files) => files };

/** Equal for connections that may do the same. */
export function accessKey({ exec, files, below }: Access): string {
  return JSON.stringify([exec, files, below]);
}

/** Throws what the client is told when a method is beyond its access. */
export function requireAccess(access: Access, method: Method): void {
  const { needs, confinable } = METHODS[method];
  if (!grants(access, needs)) {
    throw forbidden(`the token does not allow ${method}: it needs the scope ${SCOPES_FOR[needs]}`);
  }
  if (access.below !== null && confinable === false) {
    const directory = printable(textOfNativePath(access.below));
    throw forbidden(`the token does not allow ${method}: it cannot be kept below ${directory} with certainty`);
  }
}

function grants(access: Access, need: Need): boolean {
  switch (need) {
    case 'none':
      return true;
    case 'exec':
      return access.exec;
    case 'files.read':
      return access.files !== 'none';
    case 'files.write':
      return access.files === 'write';
  }
}

const SCOPES_FOR: Readonly<Record<Need, string>> = {
  none: '',
  exec: '`exec`',
  'files.read': '`files` or `read-only`',
  'files.write': '`files`',
};
