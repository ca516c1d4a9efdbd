import { RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import type { CallParamsOf } from '../../protocol/registry.ts';
import { asClientError, lostCall } from '../connection/call-errors.ts';
import { CallRetries } from '../connection/call-rules.ts';
import { type Link, LinkEndedError } from '../connection/link.ts';
import { type Capabilities, protocolError } from '../connection/server-messages.ts';
import { type Attached, readAttached } from '../connection/sharing-messages.ts';
import { ClientError } from '../errors.ts';
import { PROCESS_WINDOW_BYTES } from '../limits.ts';
import type { AttachOptions } from '../sharing.ts';
import type { Attachment } from './attachment.ts';

type AttachParams = CallParamsOf<'process/attach'>;

/** The flow-control window of a process; null when the server has no flow control. */
export function windowOf(
  { processFlowControl }: Capabilities,
  { windowBytes = PROCESS_WINDOW_BYTES }: Pick<AttachOptions, 'windowBytes'> = {},
): number | null {
  return processFlowControl ? windowBytes : null;
}

/**
 * Sends `process/attach`, again if the connection is lost before the answer: attachments end with their connection.
 * Calls `received` as soon as the answer arrives, before later messages are handled.
 */
export async function requestAttach(
  usableLink: () => Promise<Link>,
  params: AttachParams,
  received: (attached: Attached) => void,
): Promise<void> {
  for (const retries = new CallRetries(); ; ) {
    const link = await usableLink();
    const sentAt = performance.now();
    try {
      await attachOn(link, params, received);
      return;
    } catch (error) {
      if (!(error instanceof LinkEndedError)) throw asAttachError(error);
      if (error.sent && !retries.allowAfter(error.end, sentAt)) throw lostCall('process/attach', error.end);
    }
  }
}

/**
 * Attaches again over a new link, with the same role. A driver becomes a viewer when another client has taken over
 * meanwhile. Throws RpcError when the process is gone.
 */
export async function reattach(
  link: Link,
  attachment: Attachment,
  processId: string,
  signal: AbortSignal,
): Promise<void> {
  const ref = attachment.ref ?? processId;
  const isDriver = attachment.current.role === 'driver';
  const { connectionParams } = attachment;
  const check = (attached: Attached) => {
    if (attached.processId !== processId)
      throw protocolError('`process/attach` answered with another id than before');
    attachment.answered(attached, isDriver ? 'takenOver' : null);
  };
  try {
    await attachOn(link, { ref, role: isDriver ? 'driver' : 'viewer', ...connectionParams }, check, signal);
  } catch (error) {
    if (!isDriver || !(error instanceof RpcError) || error.code === RpcErrorCode.notFound) throw error;
    await attachOn(link, { ref, role: 'viewer', ...connectionParams }, check, signal);
  }
}

/**
 * Says over a new link that this client reports what it uses of a process of its session, and whether it wants times: both end with their connection. The role of
 * the client may have changed meanwhile. A server that refuses lets the program run without a window.
 */
export async function renewWindow(
  link: Link,
  attachment: Attachment,
  processId: string,
  signal: AbortSignal,
): Promise<void> {
  const { connectionParams } = attachment;
  if (Object.keys(connectionParams).length === 0) return;
  const reason = attachment.current.role === 'driver' ? 'takenOver' : null;
  // For a process of its own session a client keeps its role.
  const params = { ref: attachment.ref ?? processId, role: 'viewer', ...connectionParams } as const;
  try {
    await attachOn(link, params, (attached) => attachment.answered(attached, reason), signal);
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
  }
}

async function attachOn(
  link: Link,
  params: AttachParams,
  received: (attached: Attached) => void,
  signal?: AbortSignal,
): Promise<void> {
  let failure: unknown = null;
  await link.call('process/attach', params, {
    signal,
    received: (result) => {
      try {
        received(readAttached(result));
      } catch (error) {
        failure = error;
      }
    },
  });
  if (failure !== null) throw failure;
}

/** Converts the server's refusal. Its text says why, and when a process that is gone has ended. */
function asAttachError(error: unknown): ClientError {
  const failure = asClientError(error, 'process/attach');
  const { code, data, message } = failure;
  if (code !== RpcErrorCode.notFound) return failure;
  const hint = 'list the processes with `client.processes.list()`';
  return new ClientError('notFound', message, { code, data, cause: error, hint });
}
