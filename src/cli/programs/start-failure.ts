import { ClientError, messageWithoutHint } from '../../client/errors.ts';
import { RpcErrorCode } from '../../protocol/errors.ts';
import { DRAINING, isDrainingError } from '../environments/target.ts';
import { PROGRAM_EXIT_CODES, RunError } from '../failures.ts';
import { commandFor, type Place } from './endings.ts';

const { notFound, notExecutable } = PROGRAM_EXIT_CODES;

/**
 * Says what to do on the command line about a program that could not be started at a place, with the exit code that shells use.
 * `outlives` is whether the program outlives its session.
 */
export function startFailure(
  error: unknown,
  argv: readonly string[],
  place: Place,
  outlives: boolean,
): unknown {
  if (!(error instanceof ClientError)) return error;
  const { kind, code } = error;
  // The whole PATH fills the screen.
  const problem = messageWithoutHint(error)
    .replaceAll('`', '')
    .replace(/ \(PATH=.*\)$/s, '');
  const [program = ''] = argv;
  // A program with a space or an operator in its name is usually a shell line.
  if (
    (kind === 'programNotFound' || kind === 'permissionDenied') &&
    argv.length === 1 &&
    SHELL_LINE.test(program)
  ) {
    const line = program.replaceAll("'", `'\\''`);
    return new RunError(`${problem}; for a shell line write: exec-server run -- sh -c '${line}'`, {
      kind,
      exitCode: notFound.code,
    });
  }
  if (kind === 'programNotFound') {
    return new RunError(`${problem}; install it there, or write its path`, { kind, exitCode: notFound.code });
  }
  if (kind === 'permissionDenied' && problem.startsWith('program ')) {
    return new RunError(`${problem}; let the user of the server enter the directory`, {
      kind,
      exitCode: notExecutable.code,
    });
  }
  if (kind === 'permissionDenied' && code === RpcErrorCode.internal && !problem.startsWith('cwd ')) {
    return new RunError(`${problem}; make it an executable file, or run the program that reads it`, {
      kind,
      exitCode: notExecutable.code,
    });
  }
  if (kind === 'brokenPipe') {
    const [lost = problem] = problem.split('; the operation may');
    const state = outlives
      ? `it may still run: '${commandFor('ps', place)}' lists programs`
      : 'the server ends it, at the latest with its session';
    return new RunError(`${lost}; if the program was started, ${state}`, { kind });
  }
  if (kind === 'directoryNotFound') {
    return new RunError(`${problem}; create the directory, or choose another one with -w`, { kind });
  }
  if (kind === 'notDirectory') {
    return new RunError(`${problem}; choose another one with -w`, { kind });
  }
  const [nameInUse, ref] = /^the name \S+ is in use by the running process (\w+)/.exec(problem) ?? [];
  if (nameInUse !== undefined) {
    const advice = `choose another, or end that process with '${commandFor('kill', place, ref)}'`;
    return new RunError(`${nameInUse}; ${advice}`, { kind });
  }
  if (/^process \S+ start was cancelled$/.test(problem)) {
    return new RunError(
      'the program was not started: the server is ending, or another client has ended the program meanwhile; try again',
      { kind },
    );
  }
  const [, option] = /^the server cannot start programs with (\w+)$/.exec(problem) ?? [];
  const flag = FLAGS[option ?? ''];
  if (kind === 'unsupported' && flag !== undefined) {
    return new RunError(`the server cannot start programs with ${flag}; update it, or leave ${flag} out`, {
      kind,
    });
  }
  if (isDrainingError(error)) return new RunError(error.message, { kind: DRAINING });
  return new RunError(error.message.replaceAll('`', ''), { kind });
}

/** The flags that set options of the library which not every server has. */
const FLAGS: Readonly<Record<string, string>> = {
  detached: '-d',
  name: '--name',
  record: '--record',
  limits: '--timeout',
};

const SHELL_LINE = /[\s|&;<>$*?"'()]/;
