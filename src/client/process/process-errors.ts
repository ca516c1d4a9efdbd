import { ClientError } from '../errors.ts';

/** The process may keep running, but its events can no longer be read. */
export function cannotFollow(processId: string, error: unknown): ClientError {
  const message = error instanceof Error ? error.message : String(error);
  return new ClientError('protocol', `process ${processId} can no longer be followed: ${message}`, {
    cause: error,
  });
}

/** Whether a later attempt may succeed. */
export function maySucceedLater(error: unknown): boolean {
  return isLost(error) || (error instanceof ClientError && error.retryable);
}

/** Whether the connection ended before the answer came. */
export function isLost(error: unknown): boolean {
  return error instanceof ClientError && error.kind === 'brokenPipe';
}

/** The server lacks what the call needs. */
export function unsupported(what: string, hint: string): ClientError {
  return new ClientError('unsupported', `the server cannot ${what}`, { hint });
}
