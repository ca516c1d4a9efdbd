import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { NodeSpawner } from '../../../../src/process/spawn/node-spawner.ts';
import {
  childPids,
  command,
  openDescriptors,
  record,
  run,
  shell,
  TERMINAL,
} from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const spawner = new NativeSpawner(loadLibc());
let descriptors: number;

beforeAll(async () => {
  await run(spawner, shell('true'));
  await run(spawner, shell('true', TERMINAL));
  descriptors = openDescriptors();
});

afterEach(() => expect(openDescriptors()).toBe(descriptors));

afterAll(async () => {
  await spawner.close();
  expect(childPids()).toEqual([]);
});

describe('inherited descriptors', () => {
  const bytes = Buffer.from('bytes \0 and \xff', 'latin1');

  test('are readable from the beginning, in order, and nothing else is open', async () => {
    const spec = {
      ...shell('od -An -c <&3; cat <&4; cat <&5; ls /proc/self/fd'),
      inherited: [bytes, 'empty', Buffer.from('five')] as const,
    };
    const { stdout } = await run(spawner, spec);
    expect(stdout).toContain('\\0');
    expect(stdout).toMatch(/five0\n1\n2\n3\n4\n5\n6\n$/);
  });

  test('also work with a terminal', async () => {
    const { pty } = await run(spawner, { ...shell('cat <&3', TERMINAL), inherited: [Buffer.from('three')] });
    expect(pty).toBe('three');
  });

  test('have no limit of size or number', async () => {
    const large = Buffer.alloc(5_000_000, 'x');
    const inherited = [large, ...new Array<'empty'>(200).fill('empty')];
    const { stdout } = await run(spawner, { ...shell('wc -c <&3; ls /proc/self/fd | wc -l'), inherited });
    expect(stdout).toBe('5000000\n205\n');
  });

  test('are closed in this process when the start fails', async () => {
    const spec = { ...command(['/no/such/program']), inherited: [bytes], wrapper: 'becomes' } as const;
    await expect(spawner.spawn(spec)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('are rejected by a spawner that cannot pass them', async () => {
    const node = new NodeSpawner('no terminals');
    await expect(node.spawn({ ...shell('true'), wrapper: 'becomes' })).rejects.toMatchObject({
      code: 'ENOTSUP',
    });
    await expect(node.spawn({ ...shell('true'), inherited: [bytes] })).rejects.toMatchObject({
      code: 'ENOTSUP',
    });
    await node.close();
  });
});

describe('a program that contains the command', () => {
  /** Simulates bwrap: a shell, its child, and a command in a separate session. */
  const containing = (text: string) => ({
    ...command([
      '/bin/sh',
      '-c',
      'trap "echo outer" TERM; sh -c \'setsid -w "$@" & wait\' sh "$@" & wait; wait',
      'sh',
      'sh',
      '-c',
      text,
    ]),
    wrapper: 'contains' as const,
  });

  test('does not get the signals for the command', async () => {
    const program = record(
      await spawner.spawn(containing('trap "echo inner; exit" TERM; echo up; while :; do sleep 0.02; done')),
    );
    await waitFor('the command', () => program.text('stdout').includes('up'));
    expect(program.child.signalGroup(15)).toBe(true);
    await Promise.all([program.exited, program.ended]);
    program.child.release();
    expect(program.text('stdout')).toBe('up\ninner\n');
  });

  test('does not take the terminal', async () => {
    const open = 'ps -o tty= -p $$; (exec < /dev/tty) 2>/dev/null || echo none';
    const { pty } = await run(spawner, { ...shell(open, TERMINAL), wrapper: 'contains' });
    expect(pty.replace(/\s+/g, ' ')).toBe('? none ');
  });
});
