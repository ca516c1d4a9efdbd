import { redactArguments, redactText } from '../../observability/redact.ts';
import type { SpawnSpec } from '../../process/spawn/spawner.ts';
import { DEFAULT_TERMINAL_SIZE } from '../../process/terminal-size.ts';
import { internalError, invalidRequest } from '../../protocol/errors.ts';
import type { CastHeader } from '../../recording/asciicast.ts';
import { HEADER_TEXT_CHARS, HEADER_VARIABLE_CHARS } from '../../recording/limits.ts';
import type { Recording } from '../../recording/recording.ts';
import type { SharedProcess } from '../sessions/shared-process.ts';
import type { HandlerServices } from './services.ts';
import type { CheckedStart } from './start-request.ts';

/** The recording of a program that is about to start. */
export interface StartedRecording {
  readonly recording: Recording;
  /** Rejects with RpcError when the recording that the client asked for cannot be made. Null where the start does not wait for it. */
  readonly opened: Promise<void> | null;
  /** Removes it, because the program did not start. */
  discard(): void;
}

/** Records a program if its client or the configuration asks for it; else returns null. Throws RpcError where recordings are off. */
export function recordProcess(
  { config, recordings, records, log }: HandlerServices,
  { record, processId }: CheckedStart,
  spec: SpawnSpec,
  shared: SharedProcess,
): StartedRecording | null {
  if (record === null && config.recordDir === '') return null;
  if (recordings === null) {
    if (record === null) return null;
    throw invalidRequest(
      'recordings are switched off (maxRecordingsBytes); start the program without `record`',
    );
  }
  const { ref } = shared;
  const recording = recordings.record({
    header: headerOf(spec, shared),
    ref,
    tty: spec.io.kind === 'pty',
    input: record?.input ?? false,
    ended: (finished) => {
      if (!finished.complete) log.warn('a recording is incomplete', { ref, path: finished.path });
      records.recordingEnded({ processId, ref }, finished);
    },
  });
  shared.recording = recording;
  const opened = recording.opened.catch((error: Error) => {
    shared.recording = null;
    log.warn('cannot record a program', { ref, path: recording.path, reason: error.message });
    throw internalError(
      `cannot record the program: ${error.message}; correct that, or start it without \`record\``,
    );
  });
  opened.catch(() => {});
  return { recording, opened: record === null ? null : opened, discard: () => recordings.discard(recording) };
}

function headerOf({ argv, env, io }: SpawnSpec, { ref, owner, name }: SharedProcess): CastHeader {
  const { rows, cols } = io.kind === 'pty' ? io : DEFAULT_TERMINAL_SIZE;
  const { TERM, SHELL, LANG } = env;
  const command = redactArguments(argv.slice(0, MAX_ARGUMENTS), HEADER_TEXT_CHARS)
    .map(quoted)
    .join(' ')
    .slice(0, HEADER_TEXT_CHARS);
  return {
    version: 3,
    term: { cols, rows, ...(TERM !== undefined && { type: variable(TERM) }) },
    timestamp: Math.floor(Date.now() / 1_000),
    command,
    title: name ?? command.slice(0, TITLE_CHARS),
    env: {
      ...(SHELL !== undefined && { SHELL: variable(SHELL) }),
      ...(LANG !== undefined && { LANG: variable(LANG) }),
    },
    exec_server: { ref, owner, ...(name !== null && { name }), tty: io.kind === 'pty' },
  };
}

/** Clients choose the environment of a program. */
function variable(value: string): string {
  return redactText(value, HEADER_VARIABLE_CHARS).slice(0, HEADER_VARIABLE_CHARS);
}

/** Arguments of a header. More of them do not fit. */
const MAX_ARGUMENTS = 1_024;
const TITLE_CHARS = 128;

/** As a shell reads it. */
function quoted(argument: string): string {
  return /^[\w@%+=:,./*-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
