import { closeSync, openSync } from 'node:fs';
import { loadLibc } from '../../src/native/libc.ts';

const libc = loadLibc();
const RLIMIT_NOFILE = 7;

/** Runs an action while this process can open only so many more files. */
export async function withFreeDescriptors<T>(free: number, action: () => Promise<T>): Promise<T> {
  const [soft = 0n, hard = 0n] = libc.readLimit(0, RLIMIT_NOFILE)?.slice() ?? [];
  libc.writeLimit(RLIMIT_NOFILE, BigInt(nthFreeDescriptor(free)), hard);
  try {
    return await action();
  } finally {
    libc.writeLimit(RLIMIT_NOFILE, soft, hard);
  }
}

function nthFreeDescriptor(count: number): number {
  const opened: number[] = [];
  for (let index = 0; index <= count; index++) opened.push(openSync('/dev/null', 'r'));
  opened.forEach(closeSync);
  return opened.at(-1)!;
}
