import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { flushed, lostText, recoveryMsOf } from '../../../../src/cli/programs/endings.ts';
import type { Ending } from '../../../../src/cli/programs/follow.ts';
import { Interruptions } from '../../../../src/cli/programs/interruptions.ts';
import { PlainOutput, StandardStreams } from '../../../../src/cli/programs/program-output.ts';
import { ClientError } from '../../../../src/client/errors.ts';

/** Output with a reader that takes nothing, and a function that sends a signal to the command. */
function unread() {
  const reader = () => new Writable({ write: () => {} });
  const output = new PlainOutput(new StandardStreams(reader(), reader()), false);
  let send = (_signal: string) => {};
  const interruptions = new Interruptions({
    onSignal: (listener) => {
      send = listener;
    },
  });
  return { output, interruptions, send: (signal: string) => send(signal) };
}

test('a signal ends the wait for a reader of the last output', async () => {
  const { output, interruptions, send } = unread();
  const ending: Ending = {
    type: 'exited',
    exit: { exitCode: 0, reason: null, sandboxDenied: false },
  };
  const ended = flushed(ending, output, interruptions);
  send('SIGTERM');
  expect(await ended).toEqual({ type: 'left', exitCode: 143, text: null });
});

test('a connection that is lost because of its token says so', () => {
  const error = new ClientError(
    'disconnected',
    'the connection was lost and ws://box answered with HTTP 401',
  );
  expect(lostText(error)).toMatch(/with HTTP 401 \(the token is wrong, expired or revoked\)$/);
});

test('a program that was left does not wait for a reader that takes nothing', async () => {
  const { output, interruptions } = unread();
  const ending: Ending = { type: 'left', exitCode: 125, text: 'detached' };
  expect(await flushed(ending, output, interruptions)).toEqual(ending);
});

test.each([
  ['nothing', undefined, { detachedSessionTtlMs: 30_000, maxDetachedSessionTtlMs: 60_000 }, 31_000],
  [
    'less than the maximum',
    50_000,
    { detachedSessionTtlMs: 30_000, maxDetachedSessionTtlMs: 60_000 },
    51_000,
  ],
  [
    'more than the maximum',
    90_000,
    { detachedSessionTtlMs: 30_000, maxDetachedSessionTtlMs: 60_000 },
    61_000,
  ],
  ['no limit', 'none', { detachedSessionTtlMs: 30_000, maxDetachedSessionTtlMs: 60_000 }, 61_000],
  ['no limit of a server without one', 'none', { maxDetachedSessionTtlMs: -1 }, null],
  ['no limit of a server that does not report the maximum', 'none', { detachedSessionTtlMs: 30_000 }, 31_000],
  ['no limit of a server that reports nothing', 'none', undefined, 25_000],
] as const)(
  'a command that asks for %s waits as long as the server keeps its session',
  (_, asked, limits, waitMs) => {
    const client = { environmentInfo: { limits } } as unknown as Parameters<typeof recoveryMsOf>[0];
    expect(recoveryMsOf(client, asked === undefined ? {} : { detachedSessionTtlMs: asked })).toBe(waitMs);
  },
);
