import { isatty } from 'node:tty';
import { whenWritten } from '../observability/log-stream.ts';
import { type Host, runCommand } from './commands.ts';
import { cannotWrite, isReaderGone, reportFailure, SERVER_FAILURES } from './failures.ts';
import { withWholeWrites } from './file-writer.ts';
import { beforeDashes } from './flags.ts';
import { nodeVersionWarning } from './node-version.ts';
import { listenForSignals } from './process-setup.ts';

/** How long the end of a command waits for a reader of stderr that takes nothing. */
const SLOW_READER_TIMEOUT_MS = 10_000;

/** What Node has in a string in place of bytes that are not UTF-8. It may also have been typed. */
const UNDECODED = '\uFFFD';

const stdout = withWholeWrites(process.stdout);

const host: Host = {
  env: process.env,
  // Getters, because touching a standard stream opens it: stdin only where it is the transport, stderr not before the URL is printed.
  get stdin() {
    return process.stdin;
  },
  stdout,
  get stderr() {
    return process.stderr;
  },
  get isTerminal() {
    return isatty(1) && isatty(2);
  },
  debug: false,
  failures: SERVER_FAILURES,
  onSignal(listener, others = []) {
    listenForSignals(process, listener);
    for (const signal of others) process.on(signal, () => listener(signal));
  },
  onDrainSignal: (listener) => void process.on('SIGUSR2', listener),
  surviveHangup: () => void process.on('SIGHUP', () => {}),
  onExit: (cleanup) => process.on('exit', cleanup),
  exit: (code) => process.exit(code),
};

// A closed stdout means that the reader wants no more output, or that the terminal is gone. That is not an error.
stdout.on('error', (error) => {
  // A command that follows a program ends the program first.
  const isHandled = stdout.listenerCount('error') > 1;
  if (!isReaderGone(error) && !isHandled) fail(cannotWrite('stdout', error));
});
process.on('uncaughtException', fail);
main().catch(fail);

async function main(): Promise<void> {
  const warning = nodeVersionWarning(process.versions.node);
  if (warning !== null) process.stderr.write(`${warning}\n`);
  const argv = process.argv.slice(2);
  if (argv.some((argument) => argument.includes(UNDECODED))) {
    host.failures = { ...host.failures, json: beforeDashes(argv).includes('--json') };
    (await import('./undecodable-arguments.ts')).refuseUndecodable(argv);
  }
  const { text, exitCode, details, unwritten } = await runCommand(argv, host);
  if (details) process.stderr.write(details);
  if (text === '') return exit(exitCode);
  // The callback gets the error, too.
  stdout.on('error', () => {});
  stdout.write(text, (error) => {
    if (error && !isReaderGone(error)) fail(cannotWrite('stdout', error, unwritten));
    else void exit(exitCode);
  });
}

/** Reports every failure, thrown or emitted, expected or not. */
function fail(error: unknown): void {
  const { text, exitCode } = reportFailure(error, host.debug, host.failures);
  process.stderr.write(`${text}\n`);
  void exit(exitCode);
}

/** Writes to a pipe are asynchronous, so log records and errors may still wait for a slow reader. */
async function exit(code: number): Promise<void> {
  if (process.stderr.writableLength > 0) await whenWritten(process.stderr, SLOW_READER_TIMEOUT_MS);
  process.exit(code);
}
