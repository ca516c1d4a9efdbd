import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { loadDescriptorPassing } from '../../../../src/native/descriptor-passing.ts';
import { DescriptorMailbox } from '../../../../src/process/spawn/descriptor-mailbox.ts';
import { waitFor } from '../../../support/wait-for.ts';

const SENDER = fileURLToPath(new URL('../../../fixtures/send-listeners.mjs', import.meta.url));
const NEVER = new AbortController().signal;
const passing = loadDescriptorPassing();

function run(program: string, args: readonly string[], theirs: number): Promise<unknown> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'ignore', theirs] });
  return new Promise((resolve) => child.once('close', resolve));
}

/** Socket pairs of this process; other sockets and files come and go and are not counted. */
function socketPairs(): number {
  return readdirSync('/proc/self/fd').length;
}

test('rejects and closes everything when the sender ends early or sends a different number', async () => {
  const before = socketPairs();
  const silent = new DescriptorMailbox(passing);
  const silentEnded = run('/bin/true', [], silent.theirs);
  await expect(silent.receive(1, NEVER)).rejects.toThrow('the sender has ended');
  await silentEnded;
  const other = new DescriptorMailbox(passing);
  const otherEnded = run(process.execPath, [SENDER, '0', '/bin/true'], other.theirs);
  await expect(other.receive(2, NEVER)).rejects.toThrow('received 1 descriptors instead of 2');
  await otherEnded;
  await waitFor('the descriptors to be closed', () => socketPairs() === before);
});

test('stops waiting when the signal aborts', async () => {
  const mailbox = new DescriptorMailbox(passing);
  const child = spawn('/bin/sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', mailbox.theirs] });
  await expect(mailbox.receive(1, AbortSignal.abort())).rejects.toThrow();
  child.kill('SIGKILL');
});

test('can be discarded twice when it was not used', () => {
  const before = socketPairs();
  const mailbox = new DescriptorMailbox(passing);
  expect(socketPairs()).toBe(before + 2);
  mailbox.discard();
  mailbox.discard();
  expect(socketPairs()).toBe(before);
});
