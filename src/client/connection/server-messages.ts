import type { Capability } from '../../protocol/environment.ts';
import type { NetworkPolicyDecisionEvent, NetworkPolicyRequest } from '../../protocol/network.ts';
import type { EnvironmentInfo, LimitReason, OutputStream, ReadPage, SandboxType } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { MAX_HOST_CHARACTERS, MAX_REASON_CHARACTERS } from '../limits.ts';
import type { SequencedEvent } from '../process/event-order.ts';
import type { StreamPositions } from '../process/stream-positions.ts';
import { receivedBytes } from './bytes.ts';

// The client validates messages by hand: schemas would cost more than the messages and double the size of a browser
// bundle.

/** The capability flags of a server. */
export type Capabilities = Readonly<Partial<Record<Capability, boolean>>>;

/** A closed process that the server dropped while it waited for a client. */
export interface DroppedProcess {
  readonly processId: string;
  readonly exitCode: number;
  /** When it closed and when it was dropped. */
  readonly closedAt: Date;
  readonly droppedAt: Date;
  /** The setting of the server that limits what it keeps. */
  readonly limit: string;
}

/** Parses the result of `initialize`. Throws ClientError when it is invalid. */
export function readInitializeResult(result: unknown): {
  readonly sessionId: string;
  readonly environmentInfo: EnvironmentInfo | null;
  readonly droppedProcesses: readonly DroppedProcess[];
  readonly binaryMessages: boolean;
} {
  const { sessionId, environmentInfo, droppedProcesses, binaryMessages } = members(result);
  if (typeof sessionId !== 'string' || sessionId === '')
    throw protocolError('the result of `initialize` lacks a session id');
  const isObject = typeof environmentInfo === 'object' && environmentInfo !== null;
  return {
    sessionId,
    environmentInfo: isObject ? (environmentInfo as EnvironmentInfo) : null,
    droppedProcesses: Array.isArray(droppedProcesses) ? droppedProcesses.flatMap(readDropped) : [],
    binaryMessages: binaryMessages === true,
  };
}

/** Empty when the entry is invalid. */
function readDropped(entry: unknown): DroppedProcess[] {
  const { processId, exitCode, closedAtMs, droppedAtMs, limit } = members(entry);
  if (typeof processId !== 'string' || !isExitCode(exitCode) || typeof limit !== 'string') return [];
  if (typeof closedAtMs !== 'number' || typeof droppedAtMs !== 'number') return [];
  return [{ processId, exitCode, closedAt: new Date(closedAtMs), droppedAt: new Date(droppedAtMs), limit }];
}

/** Returns the capability flags of an environment. Any value but `true` counts as false. */
export function capabilitiesOf(info: EnvironmentInfo | null): Capabilities {
  const flags = Object.entries(members(info?.capabilities));
  return Object.fromEntries(flags.filter(([, value]) => value === true)) as Capabilities;
}

/** Returns the process id of a notification; null when there is none. */
export function processIdOf(params: unknown): string | null {
  const { processId } = members(params);
  return typeof processId === 'string' ? processId : null;
}

/** Parses the event of a `process/*` notification. Returns null when its params are invalid. */
export function readEvent(method: string, params: unknown): SequencedEvent | null {
  const { seq, stream, chunk, timeMs, exitCode, sandboxDenied, reason } = members(params);
  if (!isSeq(seq)) return null;
  if (method === 'process/closed') return { type: 'closed', seq };
  if (method === 'process/exited') {
    if (!isExitCode(exitCode)) return null;
    return { type: 'exited', seq, exitCode, sandboxDenied: sandboxDenied === true, ...limitReason(reason) };
  }
  const bytes = receivedBytes(chunk);
  if (bytes === null || !isStream(stream)) return null;
  return isTime(timeMs)
    ? { type: 'output', seq, stream, bytes, timeMs }
    : { type: 'output', seq, stream, bytes };
}

/** Parses the result of `process/read`. Throws ClientError when it is invalid. */
export function readPage(result: unknown): ReadPage {
  const page = members(result);
  const { chunks, nextSeq, exited, exitCode, closed, failure, sandboxDenied, reason } = page;
  if (!Array.isArray(chunks) || !isSeq(nextSeq))
    throw protocolError('the result of `process/read` lacks `chunks` or `nextSeq`');
  return {
    chunks: chunks.map(readChunk),
    nextSeq,
    exited: exited === true,
    exitCode: isExitCode(exitCode) ? exitCode : null,
    closed: closed === true,
    failure: typeof failure === 'string' ? failure : null,
    sandboxDenied: sandboxDenied === true,
    ...limitReason(reason),
  };
}

/** What came before the end of a page. See `process/read` in the protocol. */
export interface ReadPosition {
  readonly streamBytes: Readonly<StreamPositions>;
  readonly exitSeq: number | null;
}

/** Parses the position in the result of `process/read`. Returns null when it is missing or invalid. */
export function readPosition(result: unknown): ReadPosition | null {
  const { streamBytes, exitSeq } = members(members(result).position);
  const { stdout, stderr, pty } = members(streamBytes);
  if (!isPosition(stdout) || !isPosition(stderr) || !isPosition(pty)) return null;
  return { streamBytes: { stdout, stderr, pty }, exitSeq: isSeq(exitSeq) ? exitSeq : null };
}

/** Returns the status in a result. Throws ClientError when there is none. */
export function readStatus(result: unknown, method: string): string {
  const { status } = members(result);
  if (typeof status !== 'string') throw protocolError(`the result of \`${method}\` lacks a status`);
  return status;
}

/** Parses the result of `process/start`. */
export function readStarted(result: unknown): { sandboxType: SandboxType | null; ref: string | null } {
  const { sandboxType, ref } = members(result);
  return {
    sandboxType: typeof sandboxType === 'string' ? (sandboxType as SandboxType) : null,
    ref: typeof ref === 'string' ? ref : null,
  };
}

/** Returns whether the process was running when it was terminated. */
export function readRunning(result: unknown): boolean {
  return members(result).running === true;
}

/** Parses the params of `network/policyRequest`. Returns null when they are invalid. */
export function readPolicyRequest(
  params: unknown,
): (NetworkPolicyRequest & { readonly processId: string }) | null {
  const { processId, request } = members(params);
  const { protocol, host, port } = members(request);
  if (typeof processId !== 'string' || typeof host !== 'string' || !isPort(port)) return null;
  return isProxyProtocol(protocol) ? { processId, protocol, host, port } : null;
}

/**
 * Parses the params of `network/policyDecision`. Returns null when they are invalid. The host and the reason are shown
 * to people and models, so they must be short and without control characters.
 */
export function readPolicyDecision(params: unknown): NetworkPolicyDecisionEvent | null {
  const { processId, decision, host, port, reason, protocol, source } = members(params);
  const valid =
    typeof processId === 'string' &&
    (decision === 'allow' || decision === 'deny' || decision === 'ask') &&
    isShownText(host, MAX_HOST_CHARACTERS) &&
    isShownText(reason, MAX_REASON_CHARACTERS) &&
    isPort(port) &&
    isProxyProtocol(protocol) &&
    typeof source === 'string';
  return valid ? (params as NetworkPolicyDecisionEvent) : null;
}

/** Creates the error for an invalid message from the server. */
export function protocolError(what: string, { retryable = false } = {}): ClientError {
  return new ClientError('protocol', `invalid message from the server: ${what}`, {
    retryable,
    hint: 'check that the address is an exec-server and that no proxy alters messages',
  });
}

function readChunk(chunk: unknown): ReadPage['chunks'][number] {
  const { seq, stream, chunk: text, timeMs } = members(chunk);
  const bytes = receivedBytes(text);
  if (!isSeq(seq) || !isStream(stream) || bytes === null) throw protocolError('malformed output chunk');
  return isTime(timeMs) ? { seq, stream, bytes, timeMs } : { seq, stream, bytes };
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The members of an object; empty for any other value. */
export function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** Whether a value is a sequence number. */
export function isSeq(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

function isPosition(value: unknown): value is number | null {
  return value === null || (Number.isSafeInteger(value) && (value as number) >= 0);
}

/** Whether a value is an exit code. */
export function isExitCode(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

/** The limit that ended a program, as a member of an object; empty when there was none. */
export function limitReason(value: unknown): { readonly reason?: LimitReason } {
  const known = LIMIT_REASONS.find((reason) => reason === value);
  return known === undefined ? {} : { reason: known };
}

const LIMIT_REASONS: readonly LimitReason[] = ['oom', 'timeout', 'idle', 'outputLimit'];

function isShownText(value: unknown, maxCharacters: number): boolean {
  return typeof value === 'string' && value.length <= maxCharacters && !/\p{Cc}/u.test(value);
}

function isPort(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 65_535;
}

function isProxyProtocol(value: unknown): value is NetworkPolicyRequest['protocol'] {
  return ['http', 'https_connect', 'socks5_tcp', 'socks5_udp'].includes(value as string);
}

function isStream(value: unknown): value is OutputStream {
  return value === 'stdout' || value === 'stderr' || value === 'pty';
}
