import { printable, RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import type { RpcConnection } from '../../rpc/connection.ts';
import { CloseCode, type CloseReason } from '../../transport/transport.ts';
import { ClientError } from '../errors.ts';
import { CallLimit } from './call-limit.ts';
import { serverErrorKind } from './error-kinds.ts';
import type { LinkEnd, LinkSettings } from './link.ts';
import { protocolError, readInitializeResult } from './server-messages.ts';

/**
 * Opens a session on a new connection, or resumes one. Rejects with ClientError, and with ConnectionClosedError when the connection
 * ends first.
 */
export async function initialize(
  connection: RpcConnection,
  { clientName, detachedSessionTtlMs, whileDraining, initializeTimeoutMs }: LinkSettings,
  resumeSessionId: string | null,
  signal: AbortSignal,
): Promise<ReturnType<typeof readInitializeResult>> {
  const { hasBinaryMessages } = connection;
  const params = {
    clientName,
    resumeSessionId,
    ...(detachedSessionTtlMs !== undefined && { detachedSessionTtlMs }),
    capabilities: {
      processSharing: true,
      drainNotice: true,
      ...(whileDraining && { whileDraining }),
      ...(hasBinaryMessages && { binaryMessages: true }),
      ...(resumeSessionId !== null && { droppedProcesses: true }),
    },
  };
  // The server may send one right after its answer.
  if (hasBinaryMessages) connection.acceptBytes();
  const limit = new CallLimit(
    'the handshake',
    { signal, timeoutMs: initializeTimeoutMs },
    {
      kind: 'initializeTimeout',
      hint: 'check that the address is an exec-server, or raise `initializeTimeoutMs`',
    },
  );
  try {
    const result = readInitializeResult(
      await connection.call('initialize', params, { signal: limit.signal }),
    );
    if (resumeSessionId !== null && result.sessionId !== resumeSessionId) {
      throw protocolError('`initialize` answered with another session than the one to resume');
    }
    if (hasBinaryMessages && result.binaryMessages) connection.useBytes();
    connection.notify('initialized', {});
    return result;
  } catch (error) {
    throw error instanceof RpcError ? refusedSession(error) : error;
  } finally {
    limit.end();
  }
}

/** A shell that does not find or may not run the program, and an ssh that may not log in. Another attempt would only repeat the refusal. */
const PROGRAM_REFUSED = /\(exit code 12[67]\)|: Permission denied \(/;

/**
 * The connection ended during the handshake. A program that ends is no reason to give up a session: ssh does so as long as the network
 * is down.
 */
export function endedEarly(
  reason: CloseReason,
  end: LinkEnd | null,
  { resumes }: { readonly resumes: boolean },
): ClientError {
  // A single garbled message does not prove that this is not an exec-server.
  if (end?.protocolError) return notAnExecServer(end.reason, { retryable: true });
  if (reason.programEnded)
    return new ClientError('spawn', `the server did not start: ${reason.reason}`, {
      retryable: resumes && !PROGRAM_REFUSED.test(reason.reason),
      hint: 'check its program, `args` and `cwd`',
    });
  return new ClientError(
    'disconnected',
    `the connection ended during the handshake: ${describeClose(reason)}`,
    { retryable: true, hint: 'the server may be starting or shutting down; try again' },
  );
}

/** Why a connection was closed, for people. */
export function describeClose({ code, reason }: CloseReason): string {
  if (reason !== '') return `${reason} (${code})`;
  return code === CloseCode.abnormal
    ? 'the connection was cut without a close handshake'
    : `the server closed the connection (${code})`;
}

/** The peer does not answer `initialize` as a server does. */
function notAnExecServer(
  reason: string,
  details: { readonly retryable: boolean; readonly cause?: unknown },
): ClientError {
  return new ClientError('protocol', `\`initialize\` got no valid answer: ${reason}`, {
    ...details,
    hint: 'check that the address is an exec-server and that no proxy alters messages',
  });
}

function refusedSession(error: RpcError): ClientError {
  const { code, data, message } = error;
  if (code === RpcErrorCode.methodNotFound) {
    return notAnExecServer(printable(message), { retryable: false, cause: error });
  }
  const kind = serverErrorKind(code, message);
  return new ClientError(kind, `the server refused the session: ${message}`, {
    code,
    data,
    cause: error,
    retryable: code === RpcErrorCode.sessionAttached,
    hint: SESSION_HINTS.get(kind),
  });
}

const SESSION_HINTS: ReadonlyMap<string, string> = new Map([
  [
    'conflict',
    'another client uses the session, or the server has not noticed yet that its connection is lost',
  ],
  [
    'notFound',
    'the session has expired, or the server was restarted; connect again, with a longer `detachedSessionTtlMs` if the client may be away for longer',
  ],
]);
