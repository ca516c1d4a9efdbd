import { describe, expect, test } from 'vitest';
import { type NetworkMode, seccompFilter } from '../../../../src/sandbox/linux/seccomp.ts';
import type { Architecture } from '../../../../src/sandbox/linux/syscalls.ts';
import { ALLOW, DENY_EPERM, KILL_PROCESS, runFilter } from './filter-machine.ts';

const ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
const I386 = 0x40000003;

/** Call numbers that every mode denies: mounts, keys, kernel tracing, modules and others. */
const ALWAYS = {
  x64: [
    155, 163, 165, 166, 167, 168, 169, 175, 176, 179, 212, 246, 248, 249, 250, 298, 304, 308, 313, 320, 321,
    323, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 443, 467,
  ],
  arm64: [
    18, 39, 40, 41, 60, 89, 104, 105, 106, 142, 217, 218, 219, 224, 225, 241, 265, 268, 273, 280, 282, 294,
    425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 443, 467,
  ],
} as const;
const OTHER_PROCESSES = { x64: [101, 310, 311, 438], arm64: [117, 270, 271, 438] } as const;
/** connect, accept, accept4, bind, listen, getpeername, getsockname, shutdown, sendto, sendmmsg, recvmmsg, getsockopt, setsockopt. */
const NETWORK = {
  x64: [42, 43, 288, 49, 50, 52, 51, 48, 44, 307, 299, 55, 54],
  arm64: [203, 202, 242, 200, 201, 205, 204, 210, 206, 269, 243, 209, 208],
} as const;
const SOCKET = { x64: 41, arm64: 198 } as const;
const SOCKETPAIR = { x64: 53, arm64: 199 } as const;
const IOCTL = { x64: 16, arm64: 29 } as const;
const STREAM = 1n;

const MODES: readonly NetworkMode[] = ['restricted', 'proxied', 'enabled'];
const ARCHITECTURES: readonly Architecture[] = ['x64', 'arm64'];
const CASES = ARCHITECTURES.flatMap((architecture) => MODES.map((mode) => [mode, architecture] as const));

function expectedDenials(mode: NetworkMode, architecture: Architecture): number[] {
  const denied: number[] = [...ALWAYS[architecture]];
  if (mode !== 'enabled') denied.push(...OTHER_PROCESSES[architecture]);
  if (mode === 'restricted') denied.push(...NETWORK[architecture]);
  return denied.sort((a, b) => a - b);
}

describe.each(CASES)('%s on %s', (mode, architecture) => {
  const filter = seccompFilter(mode, architecture);
  const verdict = (nr: number, ...args: bigint[]) =>
    runFilter(filter, { arch: ARCH[architecture], nr, args });

  test('denies exactly the calls in the table', () => {
    const byArgument: number[] = [SOCKET[architecture], SOCKETPAIR[architecture], IOCTL[architecture]];
    const denied: number[] = [];
    for (let nr = 0; nr < 1024; nr++) {
      if (byArgument.includes(nr)) continue;
      const result = verdict(nr);
      if (result === DENY_EPERM) denied.push(nr);
      else expect(result).toBe(ALLOW);
    }
    expect(denied).toEqual(expectedDenials(mode, architecture));
  });

  test('allows mount only to make a mount read-only, if at all', () => {
    const nr = architecture === 'x64' ? 165 : 40;
    const relaxed = seccompFilter(mode, architecture, 'readOnly');
    const mounts = (flags: bigint) =>
      [filter, relaxed].map((of) =>
        runFilter(of, { arch: ARCH[architecture], nr, args: [0n, 0n, 0n, flags, 0n] }),
      );
    for (const flags of [0x1023n, 0x102bn]) expect(mounts(flags)).toEqual([DENY_EPERM, ALLOW]);
    for (const flags of [0n, 1n, 0x1000n, 0x1020n, 0x1021n, 0x1022n, 0x23n, 0x5023n]) {
      expect(mounts(flags)).toEqual([DENY_EPERM, DENY_EPERM]);
    }
  });

  test('protects the resource limits of process 1 only', () => {
    const prlimit64 = architecture === 'x64' ? 302 : 261;
    expect(verdict(prlimit64, 1n, 15n)).toBe(DENY_EPERM);
    expect(verdict(prlimit64, (7n << 32n) | 1n, 15n)).toBe(DENY_EPERM);
    for (const pid of [0n, 2n, 1_000n]) expect(verdict(prlimit64, pid, 15n)).toBe(ALLOW);
  });

  test('filters sockets by the low 32 bits of their family', () => {
    const allowed = (nr: number) =>
      Array.from({ length: 64 }, (_, family) => family).filter(
        (family) => verdict(nr, BigInt(family), STREAM) === ALLOW,
      );
    const all = Array.from({ length: 64 }, (_, family) => family);
    const sockets = { restricted: [1], proxied: [2, 10], enabled: all }[mode];
    expect(allowed(SOCKET[architecture])).toEqual(sockets);
    expect(allowed(SOCKETPAIR[architecture])).toEqual(mode === 'enabled' ? all : [1]);
    for (const family of sockets) {
      expect(verdict(SOCKET[architecture], (7n << 32n) | BigInt(family), STREAM)).toBe(ALLOW);
    }
    if (mode === 'enabled') return;
    expect(verdict(SOCKET[architecture], (1n << 32n) | 16n, STREAM)).toBe(DENY_EPERM);
  });

  test('denies connectionless unix sockets', () => {
    const [datagram, raw, seqpacket, flags] = [2n, 3n, 5n, 0x80800n];
    const refused = [datagram, raw, datagram | flags, (1n << 32n) | raw];
    const inet = mode === 'proxied' ? 2n : 1n;
    for (const type of refused) {
      expect(verdict(SOCKETPAIR[architecture], 1n, type)).toBe(mode === 'enabled' ? ALLOW : DENY_EPERM);
      expect(verdict(SOCKET[architecture], inet, type)).toBe(mode === 'restricted' ? DENY_EPERM : ALLOW);
    }
    for (const type of [STREAM, seqpacket, STREAM | flags, seqpacket | flags]) {
      expect(verdict(SOCKETPAIR[architecture], 1n, type)).toBe(ALLOW);
      expect(verdict(SOCKET[architecture], inet, type)).toBe(ALLOW);
    }
  });

  test('denies inserting terminal input', () => {
    for (const request of [0x5412n, 0x541cn, (1n << 32n) | 0x5412n]) {
      expect(verdict(IOCTL[architecture], 0n, request)).toBe(DENY_EPERM);
    }
    for (const request of [0x5401n, 0x540en, 0x5413n, 0x541bn]) {
      expect(verdict(IOCTL[architecture], 0x5412n, request, 0x5412n)).toBe(ALLOW);
    }
  });

  test('kills a process that uses another architecture', () => {
    const others = [I386, 0, ...ARCHITECTURES.filter((a) => a !== architecture).map((a) => ARCH[a])];
    for (const arch of others) {
      for (const nr of [0, 1, 41, 165, 1000]) expect(runFilter(filter, { arch, nr })).toBe(KILL_PROCESS);
    }
  });
});

test('denies the x32 variants of all calls', () => {
  for (const mode of MODES) {
    const filter = seccompFilter(mode, 'x64');
    for (let nr = 0; nr < 600; nr++) {
      expect(runFilter(filter, { arch: ARCH.x64, nr: 0x40000000 + nr })).toBe(DENY_EPERM);
    }
  }
});

test.each(CASES)('all jumps of %s on %s stay in the filter', (mode, architecture) => {
  const filter = seccompFilter(mode, architecture);
  const instructions = filter.length / 8;
  expect(Number.isInteger(instructions)).toBe(true);
  for (let at = 0; at < instructions; at++) {
    const operation = filter.readUInt16LE(at * 8);
    const operand = operation === 0x05 ? filter.readUInt32LE(at * 8 + 4) : 0;
    if (operation !== 0x05 && operation !== 0x15 && operation !== 0x35) continue;
    expect(at + 1 + Math.max(operand, filter[at * 8 + 2]!, filter[at * 8 + 3]!)).toBeLessThan(instructions);
  }
});
