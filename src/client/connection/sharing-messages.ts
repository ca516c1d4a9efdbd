import type { TerminalSize } from '../backend.ts';
import { toNativePath } from '../paths.ts';
import { signalOf } from '../process/exit-signal.ts';
import type { RecordingInfo } from '../recordings.ts';
import type {
  AttachedClient,
  ProcessAttachment,
  ProcessInfo,
  ProcessRole,
  ProcessScreen,
  RecordingState,
  SandboxInfo,
} from '../sharing.ts';
import { receivedBytes } from './bytes.ts';
import { isExitCode, isSeq, limitReason, members, protocolError } from './server-messages.ts';

/** The answer to `process/attach`. */
export interface Attached {
  readonly processId: string;
  readonly ref: string;
  readonly name: string | null;
  readonly role: ProcessRole;
  readonly nextSeq: number;
  readonly exitCode: number | null;
  readonly screen: ProcessScreen | null;
}

/** Parses the result of `process/attach`. Throws ClientError when it is invalid. */
export function readAttached(result: unknown): Attached {
  const { processId, ref, name, role, nextSeq, exitCode, screen } = members(result);
  if (typeof processId !== 'string' || typeof ref !== 'string' || !isRole(role) || !isSeq(nextSeq))
    throw protocolError('the result of `process/attach` lacks an id, a role or `nextSeq`');
  return {
    processId,
    ref,
    name: typeof name === 'string' ? name : null,
    role,
    nextSeq,
    exitCode: isExitCode(exitCode) ? exitCode : null,
    screen: screen === undefined || screen === null ? null : readScreen(screen),
  };
}

/** Parses a screen. Throws ClientError when it is invalid. */
export function readScreen(result: unknown): ProcessScreen {
  const screen = members(result);
  const redraw = receivedBytes(screen.redraw);
  if (redraw === null || !isCount(screen.seq) || !isCount(screen.rows) || !isCount(screen.cols))
    throw protocolError('a screen lacks its size or what it shows');
  return { ...(screen as unknown as ProcessScreen), redraw };
}

/** Parses the params of `process/attachment`. Returns null when they are invalid. */
export function readAttachment(params: unknown): ProcessAttachment | null {
  const { role, reason, attached, attachedCount } = members(params);
  if ((role !== 'none' && !isRole(role)) || !Array.isArray(attached)) return null;
  return {
    role,
    reason: typeof reason === 'string' ? (reason as ProcessAttachment['reason']) : null,
    attached: attached.filter(isClient),
    attachedCount: isCount(attachedCount) ? attachedCount : attached.length,
  };
}

/** A page of `process/list`. */
interface ProcessPage {
  readonly processes: readonly ProcessInfo[];
  /** Where the next page begins; undefined for the last one. */
  readonly next: number | undefined;
}

/** Parses the result of `process/list`. Throws ClientError when it is invalid. */
export function readProcessPage(result: unknown): ProcessPage {
  const { processes, next } = members(result);
  if (!Array.isArray(processes) || (next !== undefined && !isCount(next)))
    throw protocolError('the result of `process/list` has no list of processes');
  return { processes: processes.map(readProcessInfo), next };
}

function readProcessInfo(entry: unknown): ProcessInfo {
  const info = members(entry);
  const { processId, argv, cwd, state, startedAtMs, exitCode = null, attached } = info;
  const isValid =
    typeof processId === 'string' &&
    isListOf(argv, isText) &&
    typeof cwd === 'string' &&
    isState(state) &&
    isCount(startedAtMs) &&
    (exitCode === null || isExitCode(exitCode));
  if (!isValid) throw protocolError('`process/list` describes a process incompletely');
  return {
    processId,
    ref: textOrNull(info.ref),
    name: textOrNull(info.name),
    owner: textOrNull(info.owner),
    lifetime: info.lifetime === 'detached' ? 'detached' : 'session',
    argv,
    argvTruncated: info.argvTruncated === true,
    cwd: toNativePath(cwd),
    tty: info.tty === true,
    size: sizeOrNull(info.size),
    state,
    exitCode,
    signal: signalOf(exitCode),
    reason: limitReason(info.reason).reason ?? null,
    startedAt: new Date(startedAtMs),
    endedAt: isCount(info.endedAtMs) ? new Date(info.endedAtMs) : null,
    nextSeq: isSeq(info.nextSeq) ? info.nextSeq : 1,
    outputBytes: isCount(info.outputBytes) ? info.outputBytes : null,
    attached: Array.isArray(attached) ? attached.filter(isClient) : [],
    ports: isListOf(info.ports, isCount) ? info.ports : null,
    recording: readRecordingState(info.recording),
    sandbox: readSandbox(info.sandbox),
  };
}

/** A sandbox that this client does not know is `other`. */
function readSandbox(value: unknown): SandboxInfo | null {
  if (value === undefined || value === null) return null;
  const { type, writableRoots = [], readOnlyPaths, networkAccess } = members(value);
  const isKnown = (type === 'readOnly' || type === 'workspaceWrite') && isListOf(writableRoots, isText);
  if (!isKnown) return { type: 'other', writableRoots: [], readOnlyPaths: [], networkAccess: true };
  return {
    type,
    writableRoots,
    readOnlyPaths: isListOf(readOnlyPaths, isText) ? readOnlyPaths : [],
    networkAccess: networkAccess !== false,
  };
}

/** A page of `recordings/list`. */
interface RecordingPage {
  readonly recordings: readonly RecordingInfo[];
  /** Where the next page begins; undefined for the last one. */
  readonly next: string | undefined;
}

/** Parses the result of `recordings/list`. Throws ClientError when it is invalid. */
export function readRecordingPage(result: unknown): RecordingPage {
  const { recordings, next } = members(result);
  if (!Array.isArray(recordings) || (next !== undefined && !isText(next)))
    throw protocolError('the result of `recordings/list` has no list of recordings');
  return { recordings: recordings.map(readRecordingInfo), next };
}

function readRecordingInfo(entry: unknown): RecordingInfo {
  const { ref, name, owner, command, tty, startedAtMs, path, ...rest } = members(entry);
  const state = readRecordingState(rest);
  const isValid = isText(ref) && isText(owner) && isText(command) && isText(path) && isCount(startedAtMs);
  if (state === null || !isValid) throw protocolError('`recordings/list` describes a recording incompletely');
  const startedAt = new Date(startedAtMs);
  const file = {
    name: textOrNull(name),
    owner,
    command,
    tty: tty === true,
    startedAt,
    path: toNativePath(path),
  };
  return { ...state, ref, ...file };
}

function readRecordingState(value: unknown): RecordingState | null {
  const { recordingId, state, bytes } = members(value);
  const isValid = isText(recordingId) && RECORDING_STATES.includes(state as string) && isCount(bytes);
  return isValid ? { recordingId, state: state as RecordingState['state'], bytes } : null;
}

const RECORDING_STATES: readonly string[] = ['recording', 'complete', 'incomplete'];

/** Returns the last event of a `process/skipped` notification; null when there is none. */
export function readSkipped(params: unknown): number | null {
  const { toSeq } = members(params);
  return isSeq(toSeq) ? toSeq : null;
}

function isClient(value: unknown): value is AttachedClient {
  const { client, role } = members(value);
  return typeof client === 'string' && isRole(role);
}

function isListOf<Item>(value: unknown, isItem: (item: unknown) => item is Item): value is Item[] {
  return Array.isArray(value) && value.every(isItem);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function textOrNull(value: unknown): string | null {
  return isText(value) ? value : null;
}

function sizeOrNull(value: unknown): TerminalSize | null {
  const { rows, cols } = members(value);
  return isCount(rows) && isCount(cols) ? { rows, cols } : null;
}

function isState(value: unknown): value is ProcessInfo['state'] {
  return ['starting', 'running', 'exited', 'closed'].includes(value as string);
}

function isRole(value: unknown): value is ProcessRole {
  return value === 'viewer' || value === 'driver';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
