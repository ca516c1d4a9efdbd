import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type { CallOptions } from '../backend.ts';
import { Activity } from '../connection/activity.ts';
import { receivedBytes } from '../connection/bytes.ts';
import { expectOptions, expectPort, type OptionNames } from '../connection/option-checks.ts';
import { type Capabilities, protocolError } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import {
  MAX_TCP_CHUNK_BYTES,
  MAX_TCP_STREAMS,
  TCP_LARGE_WRITES,
  TCP_MIN_WINDOW_BYTES,
  TCP_WINDOW_BYTES,
  TCP_WINDOWS_BYTES,
} from '../limits.ts';
import { TcpStream } from './tcp-stream.ts';

/** The part of a client that TCP streams need. */
export interface TcpClient {
  readonly capabilities: Capabilities;
  call<M extends Method>(method: M, params: CallParamsOf<M>, options?: CallOptions): Promise<ResultOf<M>>;
}

/** Where a TCP stream leads, seen from the server. */
export interface TcpTarget {
  readonly port: number;
  /** Default: 127.0.0.1. Servers reach other hosts only if they are configured to. */
  readonly host?: string;
}

/** The TCP streams of one client. They belong to its connection: when that is lost, they fail. */
export class TcpStreams {
  readonly #client: TcpClient;
  readonly #activity: Activity;
  readonly #streams = new Map<string, TcpStream>();
  readonly #largeWrites = { free: TCP_LARGE_WRITES };
  /** Streams whose call is unanswered. The call itself fails when the connection is lost, or is sent after a recovery. */
  readonly #opening = new Set<TcpStream>();
  #nextId = 1;

  /** An open stream counts as activity. */
  constructor(client: TcpClient, activity = new Activity()) {
    this.#client = client;
    this.#activity = activity;
  }

  /** Opens a TCP connection from the server. Rejects with ClientError. */
  async connect(target: TcpTarget, options: CallOptions = {}): Promise<TcpStream> {
    expectOptions('client.connectTcp', target, TARGET_OPTIONS);
    const { host, port } = target ?? {};
    expectPort('port', port, 1);
    requireTcp(this.#client);
    if (this.#streams.size >= MAX_TCP_STREAMS) {
      throw new ClientError('overloaded', `${MAX_TCP_STREAMS} TCP streams are open, the maximum`, {
        hint: 'close some of them',
        retryable: true,
      });
    }
    const streamId = `tcp-${this.#nextId++}`;
    const windowBytes = this.#windowBytes();
    const end = this.#activity.begin();
    const stream = new TcpStream(streamId, windowBytes, this.#client, this.#largeWrites, () => {
      this.#streams.delete(streamId);
      end();
    });
    // Before the call: data may arrive together with the result.
    this.#streams.set(streamId, stream);
    this.#opening.add(stream);
    try {
      const params = { streamId, port, windowBytes, ...(host !== undefined && { host }) };
      await this.#client.call('tcp/connect', params, options);
      return stream;
    } catch (error) {
      // Also stops a server that is still connecting when the caller gives up.
      stream.close();
      throw error;
    } finally {
      this.#opening.delete(stream);
    }
  }

  /** Passes a notification to its stream; `unknown` when this object has no such stream. */
  receive(method: string, params: unknown): 'routed' | 'unreadable' | 'unknown' {
    if (method !== 'tcp/data' && method !== 'tcp/end' && method !== 'tcp/closed') return 'unknown';
    const { streamId, chunk, error } = (params ?? {}) as Record<string, unknown>;
    const stream = this.#streams.get(streamId as string);
    if (stream === undefined) return 'unknown';
    if (method === 'tcp/end') stream.peerEnded();
    else if (method === 'tcp/closed') stream.closed(typeof error === 'string' ? error : null);
    else {
      const bytes = receivedBytes(chunk, MAX_TCP_CHUNK_BYTES);
      if (bytes === null) return 'unreadable';
      if (!stream.received(bytes)) stream.fail(protocolError('more TCP data than the window allows'));
    }
    return 'routed';
  }

  failAll(error: ClientError): void {
    for (const stream of [...this.#streams.values()]) if (!this.#opening.has(stream)) stream.lost(error);
  }

  #windowBytes(): number {
    const share = TCP_WINDOWS_BYTES / (this.#streams.size + 1);
    return Math.floor(Math.min(TCP_WINDOW_BYTES, Math.max(TCP_MIN_WINDOW_BYTES, share)));
  }
}

const TARGET_OPTIONS: OptionNames<TcpTarget> = { port: true, host: true };

/** Throws ClientError when a server lacks the methods for TCP streams and ports. */
export function requireTcp({ capabilities }: { readonly capabilities: Capabilities }): void {
  if (capabilities.tcpStreams) return;
  throw new ClientError('unsupported', 'the server does not support TCP streams', {
    hint: 'update the server',
  });
}
