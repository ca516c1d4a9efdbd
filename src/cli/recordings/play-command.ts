import { once } from 'node:events';
import type { ReadStream, WriteStream } from 'node:tty';
import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { parseDuration } from '../duration.ts';
import { UsageError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { LocalTerminal } from '../programs/local-terminal.ts';
import { PLAY_FLAGS } from '../specs/recording-specs.ts';
import { type OpenedRecording, readCast, withRecording } from './open-recording.ts';
import { Player } from './player.ts';

/** Plays a recording on the terminal. */
export async function playCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('play', argv, PLAY_FLAGS, 'files');
  const speed = speedOf(flags.speed);
  const idleLimit = flags['idle-limit'];
  const idleLimitMs = idleLimit === undefined ? null : parseDuration(idleLimit, '--idle-limit', 'play');
  if (!(host.stdout as Partial<WriteStream>).isTTY) {
    throw new UsageError(
      "play needs a terminal as stdout; 'exec-server export --txt' prints the text of a recording",
      'play',
    );
  }
  await withRecording('play', positionals, flags, host, (recording) =>
    play(recording, { speed, idleLimitMs }, host),
  );
  return { text: '', exitCode: 0 };
}

interface PlayOptions {
  readonly speed: number;
  /** Null for that of the recording. */
  readonly idleLimitMs: number | null;
}

async function play(recording: OpenedRecording, options: PlayOptions, host: Host): Promise<void> {
  let problems = '';
  const { header, events } = await readCast(recording, (problem) => {
    problems += problem;
  });
  const terminal = new LocalTerminal(host);
  const { cols, rows } = header.term;
  const { size } = terminal;
  if (size.cols < cols || size.rows < rows) {
    host.stderr.write(
      `the recording has ${cols}x${rows} characters and this terminal ${size.cols}x${size.rows}; make it larger to see all\n`,
    );
  }
  const stdout = host.stdout as WriteStream;
  const player = new Player({
    speed: options.speed,
    idleLimitMs: options.idleLimitMs ?? recordedLimitMs(header),
    async write(text) {
      terminal.modes.follow(Buffer.from(text));
      if (!stdout.write(text)) await once(stdout, 'drain');
    },
  });
  host.onSignal(() => player.quit());
  const stdin = host.stdin as ReadStream;
  const pressed = (keys: Buffer) => player.keys(keys.toString());
  if (stdin.isTTY) {
    terminal.enterRawMode();
    stdin.on('data', pressed);
  }
  try {
    await player.play(events);
  } finally {
    stdin.off('data', pressed);
    stdin.pause();
    terminal.restore();
  }
  // A message would not be seen on the screen of the recording.
  if (problems !== '') host.stderr.write(problems);
}

function recordedLimitMs(header: object): number {
  const { idle_time_limit: seconds } = header as { readonly idle_time_limit?: unknown };
  return typeof seconds === 'number' && seconds > 0 ? seconds * 1_000 : Number.POSITIVE_INFINITY;
}

function speedOf(text = '1'): number {
  const speed = Number(text);
  if (Number.isFinite(speed) && speed > 0) return speed;
  throw new UsageError(`--speed ${quoteValue(text)} is not a speed; write a number such as 2 or 0.5`, 'play');
}
