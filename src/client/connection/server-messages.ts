import { base64ByteLength, decodeBase64 } from '../../base/base64.ts';
import type { Capability } from '../../protocol/environment.ts';
import type { NetworkPolicyRequest } from '../../protocol/network.ts';
import type { EnvironmentInfo, OutputStream, ReadPage } from '../backend.ts';
import { ClientError } from '../errors.ts';
import type { SequencedEvent } from '../process/event-order.ts';

// The client checks what it acts upon itself, by hand: schemas would cost more than the messages and double a browser bundle.

/** Which flags a server has set. */
export type Capabilities = Readonly<Partial<Record<Capability, boolean>>>;

/** The answer to `initialize`. Throws ClientError when it makes no sense. */
export function readInitializeResult(result: unknown): {
  readonly sessionId: string;
  readonly environmentInfo: EnvironmentInfo | null;
} {
  const { sessionId, environmentInfo } = members(result);
  if (typeof sessionId !== 'string' || sessionId === '')
    throw protocolError('`initialize` without a session id');
  const told = typeof environmentInfo === 'object' && environmentInfo !== null;
  return { sessionId, environmentInfo: told ? (environmentInfo as EnvironmentInfo) : null };
}

/** The flags of an environment; what is not exactly true is false. */
export function capabilitiesOf(info: EnvironmentInfo | null): Capabilities {
  const flags = Object.entries(members(info?.capabilities));
  return Object.fromEntries(flags.filter(([, value]) => value === true)) as Capabilities;
}

/** The process that a notification is about; null when it names none. */
export function processIdOf(params: unknown): string | null {
  const { processId } = members(params);
  return typeof processId === 'string' ? processId : null;
}

/** The event that a `process/*` notification tells of; null when its params make no sense. */
export function readEvent(method: string, params: unknown): SequencedEvent | null {
  const { seq, stream, chunk, exitCode, sandboxDenied } = members(params);
  if (!isSeq(seq)) return null;
  if (method === 'process/closed') return { type: 'closed', seq };
  if (method === 'process/exited') {
    if (!isExitCode(exitCode)) return null;
    return { type: 'exited', seq, exitCode, sandboxDenied: sandboxDenied === true };
  }
  const bytes = typeof chunk === 'string' ? decodeBase64(chunk) : null;
  return bytes === null || !isStream(stream) ? null : { type: 'output', seq, stream, bytes };
}

/** A page of `process/read`. Throws ClientError when it makes no sense. */
export function readPage(result: unknown): ReadPage {
  const page = members(result);
  const { chunks, nextSeq, exited, exitCode, closed, failure, sandboxDenied } = page;
  if (!Array.isArray(chunks) || !isSeq(nextSeq))
    throw protocolError('a page of output without chunks or `nextSeq`');
  return {
    chunks: chunks.map(readChunk),
    nextSeq,
    exited: exited === true,
    exitCode: isExitCode(exitCode) ? exitCode : null,
    closed: closed === true,
    failure: typeof failure === 'string' ? failure : null,
    sandboxDenied: sandboxDenied === true,
  };
}

/** All output that a snapshot accounts for, in bytes, and the number of the event behind it; null when it makes no sense. */
export function readSnapshotTotal(result: unknown): { nextSeq: number; bytes: number } | null {
  const { omittedBytes, nextSeq, ...kept } = members(result);
  const omitted = members(omittedBytes);
  let bytes = 0;
  for (const name of ['stdout', 'stderr', 'terminal']) {
    const [text, missing] = [kept[name], omitted[name]];
    if (typeof text !== 'string' || !Number.isSafeInteger(missing)) return null;
    bytes += base64ByteLength(text) + (missing as number);
  }
  return isSeq(nextSeq) ? { nextSeq, bytes } : null;
}

/** The status that a call was answered with. Throws ClientError when there is none. */
export function readStatus(result: unknown, method: string): string {
  const { status } = members(result);
  if (typeof status !== 'string') throw protocolError(`an answer to \`${method}\` without a status`);
  return status;
}

/** Whether the process was running when it was ended. */
export function readRunning(result: unknown): boolean {
  return members(result).running === true;
}

/** What `network/policyRequest` asks; null when its params make no sense. */
export function readPolicyRequest(
  params: unknown,
): (NetworkPolicyRequest & { readonly processId: string }) | null {
  const { processId, request } = members(params);
  const { protocol, host, port } = members(request);
  if (typeof processId !== 'string' || typeof host !== 'string' || !isPort(port)) return null;
  return isProxyProtocol(protocol) ? { processId, protocol, host, port } : null;
}

/** What a server sent makes no sense. */
export function protocolError(what: string, { retryable = false } = {}): ClientError {
  return new ClientError('protocol', `the server sent ${what}`, {
    retryable,
    hint: 'check that the address is one of an exec-server and that nothing between alters messages',
  });
}

function readChunk(chunk: unknown): ReadPage['chunks'][number] {
  const { seq, stream, chunk: text } = members(chunk);
  const bytes = typeof text === 'string' ? decodeBase64(text) : null;
  if (!isSeq(seq) || !isStream(stream) || bytes === null)
    throw protocolError('a chunk of output that cannot be read');
  return { seq, stream, bytes };
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function isSeq(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

function isExitCode(value: unknown): value is number {
  return Number.isSafeInteger(value);
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
