import { getSystemErrorMap } from 'node:util';

/**
 * Why a system call has failed, in the words of the system: `no such file or directory`. Node's own messages also have the code, the
 * name of the call and the path, which people do not need. The message of any other error is returned as it is.
 */
export function systemReason(error: unknown): string {
  const { errno, message, syscall } = error as NodeJS.ErrnoException;
  if (syscall === 'uv_cwd') return 'the current directory no longer exists; cd elsewhere';
  const known = typeof errno === 'number' ? getSystemErrorMap().get(errno) : undefined;
  return known === undefined ? message : (CLEARER[known[0]] ?? known[1]);
}

const CLEARER: Readonly<Record<string, string>> = {
  EISDIR: 'it is a directory',
  EEXIST: 'it exists',
  EAI_NONAME: 'no such host',
  EAI_AGAIN: 'the name server does not answer',
};
