import type { FileSystem } from '../../files/file-system.ts';
import { type NativePath, textOfNativePath } from '../../files/native-path.ts';
import type { Need } from '../../protocol/define.ts';
import { forbidden, printable } from '../../protocol/errors.ts';
import { METHODS, type Method, type ParamsOf } from '../../protocol/registry.ts';

/** The access rights of a connection. */
export interface Access {
  readonly exec: boolean;
  /** Whether the processes of all owners may be listed and viewed. */
  readonly observe: boolean;
  /** Whether the processes of the same owner may be listed and viewed even without `exec`. */
  readonly viewOwn?: boolean;
  readonly files: 'none' | 'read' | 'write';
  /** Whether `http/*` may be used. Programs reach the network independently of this. */
  readonly net: boolean;
  /** Whether `/metrics` may be read, which covers all clients. No method needs this. */
  readonly metrics: boolean;
  /** The directory below which files may be accessed; null for all files. */
  readonly below: NativePath | null;
  /** Restricts a file system to the directory. */
  restrict(files: FileSystem): FileSystem;
}

/** The rights of a connection without a token, or with a token without limits. */
export const FULL_ACCESS: Access = {
  exec: true,
  observe: true,
  files: 'write',
  net: true,
  metrics: true,
  below: null,
  restrict: (files) => files,
};

/** Equal for connections with the same rights to call methods. */
export function accessKey({ exec, observe, viewOwn = false, files, net, below }: Access): string {
  return JSON.stringify([exec, observe, files, net, below, ...(viewOwn ? ['viewOwn'] : [])]);
}

/** The rights that are left without those to change anything or to reach the network. What could be viewed can still be viewed. */
export function readOnlyAccess(access: Access): Access {
  const { exec, viewOwn = false, files } = access;
  return {
    ...access,
    exec: false,
    viewOwn: exec || viewOwn,
    files: files === 'none' ? 'none' : 'read',
    net: false,
    metrics: false,
  };
}

/** The key of {@link FULL_ACCESS}. */
export const FULL_ACCESS_KEY = accessKey(FULL_ACCESS);

/** Whether a connection may use everything of its own. A token that separates owners may not observe others, and has no other limit. */
export function isUnlimited(access: Access): boolean {
  return accessKey({ ...access, observe: true }) === FULL_ACCESS_KEY;
}

/** Throws RpcError when a connection may not call a method. */
export function requireAccess(access: Access, method: Method, params: unknown): void {
  const need = needOf(method, params);
  if (!grants(access, need)) {
    throw forbidden(`the token does not allow ${method}: it needs the scope ${SCOPES_FOR[need]}`);
  }
  if (access.below !== null && METHODS[method].pathRestrictable === false) {
    const directory = printable(textOfNativePath(access.below));
    throw forbidden(
      `the token does not allow ${method}: the server cannot restrict it to ${directory} reliably`,
    );
  }
}

/** Whether a method changes files or reaches the network, so that it needs a server that goes on. Starts of programs are refused elsewhere. */
export function isNewWork(method: Method, params: unknown): boolean {
  return ['files.write', 'net'].includes(needOf(method, params));
}

/** Opening a handle for writing needs the right to write. */
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
    case 'processes.read':
      return access.exec || access.observe || access.viewOwn === true;
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
  'processes.read': '`exec` or `observe`',
  'files.read': '`files` or `read-only`',
  'files.write': '`files`',
  net: '`net`',
};
