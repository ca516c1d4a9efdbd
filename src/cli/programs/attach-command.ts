import { isatty } from 'node:tty';
import { unlessAborted } from '../../base/abort.ts';
import type { ExecProcess } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import type { ClientError } from '../../client/errors.ts';
import type { ProcessInfo } from '../../client/sharing.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { UsageError } from '../failures.ts';
import { type GivenFlags, parseFlags } from '../flags.ts';
import { ATTACH_FLAGS } from '../specs/run-specs.ts';
import { findProcesses } from './find-process.ts';
import { followDetached } from './follow-detached.ts';
import { Interruptions } from './interruptions.ts';
import { WATCHING } from './keyboard.ts';
import { LocalTerminal } from './local-terminal.ts';
import { OutputLosses } from './output-losses.ts';
import { hasTerminal, isStdinPiped } from './program-input.ts';
import { JsonOutput, PlainOutput, StandardStreams } from './program-output.ts';

type AttachFlags = GivenFlags<typeof ATTACH_FLAGS>;

/** Follows a running program, and passes input on to it. */
export async function attachToProgram(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('attach', argv, ATTACH_FLAGS, 'files');
  const [program, unexpected] = positionals;
  if (program === undefined) {
    throw new UsageError("the program is missing; 'exec-server ps' lists them", 'attach');
  }
  if (unexpected !== undefined)
    throw new UsageError(`unexpected argument ${quoteValue(unexpected)}`, 'attach');
  if (flags['read-only'] && flags['take-over']) {
    throw new UsageError('--read-only and --take-over exclude each other', 'attach');
  }
  const interruptions = new Interruptions(host, 'before it was attached to the program');
  const streams = new StandardStreams(host.stdout, host.stderr);
  return followDetached({
    flags,
    clientName: 'exec-server attach',
    host,
    interruptions,
    starts: false,
    json: flags.json === true,
    async open(client, place) {
      const { signal } = interruptions;
      const finding = findProcesses(client, [program], { reads: true, place });
      const [found] = await unlessAborted(finding, signal);
      const info = found!;
      const terminal = info.tty && !flags.json && hasTerminal() ? new LocalTerminal(host) : null;
      const { process, isWatching } = await unlessAborted(attach(client, info, flags, terminal), signal);
      const output = outputOf(flags, streams, terminal);
      if (output instanceof JsonOutput) output.attached(process);
      const note = isWatching ? ANOTHER_HAS_THE_KEYBOARD : flags['read-only'] && isatty(2) ? WATCHING : null;
      // A screen would be drawn over it.
      const noteAfterScreen = terminal !== null && info.state === 'running' ? note : null;
      if (note !== null && noteAfterScreen === null) output.note(note);
      if (info.tty && !flags['read-only'] && !isatty(0)) output.note(NO_END_OF_INPUT);
      if (terminal !== null) {
        terminal.enterRawMode();
        await streams.toStdout(CLEAR);
        if (process.role === 'driver')
          await process.resize(terminal.size.rows, terminal.size.cols, { signal }).catch(() => {});
      }
      const input = inputOf(flags, terminal, info);
      const wantsKeyboard = !flags['read-only'];
      const losses = new OutputLosses(info.nextSeq);
      return {
        process,
        terminal,
        output,
        input,
        isOnTerminal: info.tty,
        wantsKeyboard,
        losses,
        noteAfterScreen,
      };
    },
  });
}

/** Attaches as a driver if that is possible, else as a viewer. */
async function attach(
  client: ExecServerClient,
  { processId, ref: ownRef, state, tty }: ProcessInfo,
  flags: AttachFlags,
  terminal: LocalTerminal | null,
): Promise<{ readonly process: ExecProcess; readonly isWatching: boolean }> {
  const ref = ownRef ?? processId;
  const screen = terminal !== null && tty && state === 'running';
  if (flags['read-only']) return { process: await client.attach(ref, { screen }), isWatching: false };
  const takeOver = flags['take-over'] === true;
  if (screen) {
    // Before the screen is read, so that it fits. Refused while another client drives.
    const { rows, cols } = terminal.size;
    const driving = takeOver && client.call('process/attach', { ref, role: 'driver', takeOver });
    await Promise.resolve(driving)
      .then(() => client.call('process/resize', { processId: ref, rows, cols }))
      .catch(() => {});
  }
  try {
    return { process: await client.attach(ref, { role: 'driver', takeOver, screen }), isWatching: false };
  } catch (error) {
    if ((error as ClientError).kind !== 'conflict') throw error;
    return { process: await client.attach(ref, { screen }), isWatching: true };
  }
}

function inputOf(
  flags: AttachFlags,
  terminal: LocalTerminal | null,
  { tty }: ProcessInfo,
): 'none' | 'stream' | 'person' {
  if (terminal !== null) return 'person';
  // A program on a terminal gets keys, which a terminal that is not in raw mode does not have.
  if (isatty(0)) return tty ? 'none' : 'person';
  return !flags['read-only'] && isStdinPiped() ? 'stream' : 'none';
}

function outputOf(
  { json }: AttachFlags,
  streams: StandardStreams,
  terminal: LocalTerminal | null,
): PlainOutput | JsonOutput {
  return json ? new JsonOutput(streams) : new PlainOutput(streams, terminal !== null);
}

const ANOTHER_HAS_THE_KEYBOARD =
  'another client has the keyboard; you watch until it leaves (--take-over takes it)';
const NO_END_OF_INPUT =
  'the program is on a terminal, which the end of stdin does not reach; attach stays until the program ends';

/** Moves to the first column of the first line, and clears the screen. */
const CLEAR = '\x1b[H\x1b[2J';
