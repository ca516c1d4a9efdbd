import type { AttachedClient, ProcessAttachment, ProcessRole, ProcessScreen } from '../sharing.ts';
import { receivedBytes } from './bytes.ts';
import { isExitCode, isSeq, members, protocolError } from './server-messages.ts';

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

/** Returns the last event of a `process/skipped` notification; null when there is none. */
export function readSkipped(params: unknown): number | null {
  const { toSeq } = members(params);
  return isSeq(toSeq) ? toSeq : null;
}

function isClient(value: unknown): value is AttachedClient {
  const { client, role } = members(value);
  return typeof client === 'string' && isRole(role);
}

function isRole(value: unknown): value is ProcessRole {
  return value === 'viewer' || value === 'driver';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
