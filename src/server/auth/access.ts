import type { FileSystem } from '../../files/file-system.ts';
import { type NativePath, textOfNativePath } from '../../files/native-path.ts';
import type { Need } from '../../protocol/define.ts';
import { forbidden, printable } from '../../protocol/errors.ts';
import { METHODS, type Method, type ParamsOf } from '../../protocol/registry.ts';

/** What a connection may do. */
export interface Access {
  readonly exec: boolean;
  readonly files: 'none' | 'read' | 'write';
  /** Whether web servers may be asked from this machine. Programs go where they like; this is about requests without one. */
  readonly net: boolean;
  /** Whether it may read the metrics of the server, which tell of everybody. No method needs this. */
  readonly metrics: boolean;
  /** The directory below which files may be touched; null where all may be. */
  readonly below: NativePath | null;
  /** The same files with those left out that are not below the directory. */
  restrict(files: FileSystem): FileSystem;
}

/** What a connection may do whose token says nothing about it, or that needs none. */
export const FULL_ACCESS: Access = {
  exec: true,
  files: 'write',
  net: true,
  metrics: true,
  below: null,
  restrict: (files) => files,
};

/** Equal for connections whose methods may do the same. */
export function accessKey({ exec, files, net, below }: Access): string {
  return JSON.stringify([exec, files, net, below]);
}

/** The key of {@link FULL_ACCESS}. */
export const FULL_ACCESS_KEY = accessKey(FULL_ACCESS);

/** Throws what the client is told when a method is beyond its access. */
export function requireAccess(access: Access, method: Method, params: unknown): void {
  const need = needOf(method, params);
  if (!grants(access, need)) {
    throw forbidden(`the token does not allow ${method}: it needs the scope ${SCOPES_FOR[need]}`);
  }
  if (access.below !== null && METHODS[method].confinable === false) {
    const directory = printable(textOfNativePath(access.below));
    throw forbidden(
      `the token does not allow ${method}: it cannot be kept below ${directory} with certainty`,
    );
  }
}

/** A handle to write through needs what writing needs. */
function needOf(method: Method, params: unknown): Need {
  if (method !== 'fs/open') return METHODS[method].needs;
  return (params as ParamsOf<'fs/open'>).mode === 'read' ? 'files.read' : 'files.write';
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
    case 'net':
      return access.net;
  }
}

const SCOPES_FOR: Readonly<Record<Need, string>> = {
  none: '',
  exec: '`exec`',
  'files.read': '`files` or `read-only`',
  'files.write': '`files`',
  net: '`net`',
};
