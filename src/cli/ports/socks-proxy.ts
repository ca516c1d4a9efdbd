import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/abort.ts';
import { ClientError } from '../../client/errors.ts';
import { LocalListener } from '../../client/tcp/local-listener.ts';
import { type ForwardClient, openStream } from '../../client/tcp/port-forward.ts';
import { RpcErrorCode } from '../../protocol/errors.ts';
import { hostAndPort } from './forward-spec.ts';
import { REFUSAL_LINGER_MS } from './limits.ts';
import { SocksHandshake, SocksReply, type SocksTarget, socksReply } from './socks-handshake.ts';

interface SocksOptions {
  readonly bind: string;
  readonly port: number;
  /** Called when a connection failed, with its target if that is known. */
  onError(error: Error, target: string | null): void;
}

/** Listens for SOCKS 5 clients and connects them with what the server reaches. Rejects with ClientError. */
export function openSocksProxy(
  client: Pick<ForwardClient, 'connectTcp'>,
  { bind, port, onError }: SocksOptions,
): Promise<LocalListener> {
  return LocalListener.open({
    host: bind,
    port,
    onError: (error) => onError(error, null),
    open: async (socket, signal) => {
      const target = await readTarget(socket, signal, (problem) => onError(new Error(problem), null));
      if (target === null) return null;
      let stream: Duplex;
      try {
        stream = await openStream(client, target, signal);
      } catch (error) {
        if (signal.aborted) throw error;
        endWith(socket, socksReply(replyCode(error)));
        onError(error as Error, hostAndPort(target.host, target.port));
        return null;
      }
      socket.write(socksReply(SocksReply.succeeded));
      return stream;
    },
  });
}

/** Reads the handshake of a client. Returns null when it failed or the client has gone; the socket is then being closed. */
function readTarget(
  socket: Socket,
  signal: AbortSignal,
  onProblem: (problem: string) => void,
): Promise<SocksTarget | null> {
  const handshake = new SocksHandshake();
  return new Promise((resolve, reject) => {
    const finish = () => {
      socket.pause().off('data', receive).off('end', leave).off('close', leave);
      stopWaiting();
    };
    const receive = (chunk: Buffer) => {
      const { answer, target, problem } = handshake.push(chunk);
      if (target === null && problem === null) {
        if (answer.length > 0) socket.write(answer);
        return;
      }
      finish();
      if (problem !== null) {
        onProblem(problem);
        endWith(socket, answer);
        resolve(null);
        return;
      }
      if (answer.length > 0) socket.write(answer);
      if (handshake.rest.length > 0) socket.unshift(handshake.rest);
      resolve(target);
    };
    const leave = () => {
      finish();
      socket.destroy();
      resolve(null);
    };
    const stopWaiting = onAbort(signal, () => {
      finish();
      reject(signal.reason);
    });
    socket.on('data', receive).once('end', leave).once('close', leave).resume();
  });
}

/** Sends the last bytes, and gives the client some time to read them. Input is dropped: with unread input the system would reset. */
function endWith(socket: Socket, bytes: Uint8Array): void {
  const timer = setTimeout(() => socket.destroy(), REFUSAL_LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.resume().end(bytes);
}

function replyCode(error: unknown): number {
  if (!(error instanceof ClientError)) return SocksReply.failed;
  if (error.kind === 'permissionDenied' || error.code === RpcErrorCode.invalidRequest)
    return SocksReply.notAllowed;
  if (error.message.includes('connection refused')) return SocksReply.refused;
  return error.code === RpcErrorCode.internal ? SocksReply.hostUnreachable : SocksReply.failed;
}
