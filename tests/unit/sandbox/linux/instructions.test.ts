import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { Instructions } from '../../../../src/sandbox/linux/instructions.ts';
import { SMALL_PIPE_BYTES } from '../../../../src/sandbox/linux/limits.ts';
import { openDescriptors } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const libc = loadLibc();
const LAUNCHER = Buffer.from('what is executed');
/** More than a pipe holds. */
const MANY = Buffer.alloc(300_000, 'argument\0');

let descriptors: number;
let instructions: Instructions;
/** The descriptors that bwrap would inherit. */
let [launcher, args] = [-1, -1];

beforeEach(() => {
  descriptors = openDescriptors();
  instructions = new Instructions(libc);
  [launcher, args] = [instructions.inherited.launcher, instructions.inherited.pipe].map(({ fd }) =>
    openSync(`/proc/self/fd/${fd}`, constants.O_RDONLY | constants.O_NONBLOCK),
  ) as [number, number];
});

afterEach(async () => {
  instructions.close();
  closeSync(launcher);
  if (args >= 0) closeSync(args);
  await waitFor('every descriptor to be closed', () => openDescriptors() === descriptors);
});

const launcherSize = () => fstatSync(launcher).size;

/** Reads some bytes from the pipe. */
function available(): Buffer {
  const piece = Buffer.alloc(16 * 1024);
  try {
    return piece.subarray(0, readSync(args, piece));
  } catch {
    return piece.subarray(0, 0);
  }
}

function endReader(): void {
  closeSync(args);
  args = -1;
}

test.each([0, 1, SMALL_PIPE_BYTES])(
  'sends %i bytes of arguments with the launcher in one call',
  async (size) => {
    instructions.closeReadEnd();
    expect(launcherSize()).toBe(0);
    const bytes = MANY.subarray(0, size);
    await instructions.send({ args: bytes, launcher: LAUNCHER });
    expect(readFileSync(args)).toEqual(Buffer.from(bytes));
    expect(readFileSync(launcher)).toEqual(LAUNCHER);
  },
);

test('fills the launcher only after all arguments are in the pipe', async () => {
  instructions.closeReadEnd();
  let sent = false;
  const sending = instructions.send({ args: MANY, launcher: LAUNCHER }).then(() => {
    sent = true;
  });
  const received: Buffer[] = [];
  const total = () => received.reduce((sum, { length }) => sum + length, 0);
  // The rest fits into the pipe only after more than this was read.
  while (total() < 100_000) {
    received.push(available());
    await new Promise(setImmediate);
    expect([launcherSize(), sent]).toEqual([0, false]);
  }
  while (!sent) {
    received.push(available());
    await new Promise(setImmediate);
  }
  await sending;
  received.push(readFileSync(args));
  expect(Buffer.concat(received).equals(MANY)).toBe(true);
  expect(readFileSync(launcher)).toEqual(LAUNCHER);
});

test.each([
  ['few', MANY.subarray(0, 100)],
  ['many', MANY],
])('drops %s arguments when bwrap has exited', async (_, bytes) => {
  instructions.closeReadEnd();
  endReader();
  await instructions.send({ args: bytes, launcher: LAUNCHER });
  expect(launcherSize()).toBe(0);
});

test('closing before sending ends the arguments and leaves the launcher empty', async () => {
  instructions.close();
  await instructions.send({ args: MANY, launcher: LAUNCHER });
  expect(readFileSync(args)).toEqual(Buffer.alloc(0));
  expect(launcherSize()).toBe(0);
});

test('closing while sending leaves the launcher empty', async () => {
  instructions.closeReadEnd();
  const sending = instructions.send({ args: MANY, launcher: LAUNCHER });
  instructions.close();
  await sending;
  expect(readFileSync(args).length).toBeLessThan(MANY.length);
  expect(launcherSize()).toBe(0);
});
