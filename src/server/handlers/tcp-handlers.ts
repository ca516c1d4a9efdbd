import { NetworkError } from '../../network/errors.ts';
import { EncodedResult } from '../../rpc/results.ts';
import type { Handlers } from '../../rpc/router.ts';
import { bytesParam } from './params.ts';
import type { HandlerServices } from './services.ts';

type TcpMethod = Extract<keyof Handlers, `tcp/${string}` | `ports/${string}`>;

/** The `tcp/*` and `ports/*` methods. */
export function tcpHandlers({
  tcp,
  ports,
  records,
  sandboxEnforcer,
}: HandlerServices): Pick<Handlers, TcpMethod> {
  return {
    'tcp/connect': async ({ streamId, host, port, windowBytes }, { park }) => {
      const opened = await records.tcpConnect({ host, port }, () => {
        if (sandboxEnforcer.networkForbidden) throw new NetworkError('refused', NETWORK_FORBIDDEN);
        park();
        return tcp.connect(streamId, host, port, windowBytes);
      });
      const { address, start } = opened;
      // The client must have the result before the first `tcp/data`.
      return new EncodedResult(JSON.stringify({ address, port }), start);
    },

    'tcp/data': (params, { bulk, park, signal }) => {
      const bytes = bytesParam(params, 'chunk', bulk);
      const waiting = tcp.write(params.streamId, bytes, park);
      if (waiting !== undefined) return answerAfter(waiting, signal);
      bulk?.release();
      return {};
    },

    'tcp/end': ({ streamId }, { park, signal }) => {
      const waiting = tcp.end(streamId);
      park();
      return answerAfter(waiting, signal);
    },

    'tcp/close': async ({ streamId }) => {
      await tcp.close(streamId);
      return {};
    },

    'tcp/consumed': ({ streamId, bytes }) => {
      tcp.consumed(streamId, bytes);
      return {};
    },

    'ports/watch': async ({ watchId }, { park }) => {
      park();
      const { ports: found, start } = await ports.watch(watchId);
      return new EncodedResult(JSON.stringify({ ports: found }), start);
    },

    'ports/unwatch': ({ watchId }) => {
      ports.unwatch(watchId);
      return {};
    },
  };
}

/** The empty result after `waiting`. After the client has ended its input no write can follow, so nothing is held back. */
function answerAfter(waiting: Promise<void>, signal: AbortSignal): Promise<Record<string, never>> {
  return new Promise((resolve) => {
    const answer = () => resolve({});
    if (signal.aborted) answer();
    signal.addEventListener('abort', answer, { once: true });
    void waiting.then(() => {
      signal.removeEventListener('abort', answer);
      answer();
    });
  });
}

const NETWORK_FORBIDDEN = 'this server does not allow connections to the network (--min-sandbox)';
