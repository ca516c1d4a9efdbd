import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { flushed } from '../../../../src/cli/programs/endings.ts';
import type { Ending } from '../../../../src/cli/programs/follow.ts';
import { Interruptions } from '../../../../src/cli/programs/interruptions.ts';
import { PlainOutput, StandardStreams } from '../../../../src/cli/programs/program-output.ts';

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

test('a program that was left does not wait for a reader that takes nothing', async () => {
  const { output, interruptions } = unread();
  const ending: Ending = { type: 'left', exitCode: 125, text: 'detached' };
  expect(await flushed(ending, output, interruptions)).toEqual(ending);
});
