import type { Readable, Writable } from 'node:stream';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Logger } from '../observability/log.ts';
import type { AgentServers } from './agent-server.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';

/** A client on a pair of streams. */
export interface StdioClient {
  /** Resolves when the client is gone: its stream has ended, or it has sent what cannot be a message. */
  readonly closed: Promise<void>;
  close(): Promise<void>;
}

/** Serves one client. Only messages of the protocol are written to `output`. */
export function serveMcpStdio(
  servers: AgentServers,
  input: Readable,
  output: Writable,
  log: Logger,
): StdioClient {
  const transport = new StdioServerTransport(input, output, { maxBufferSize: MAX_MESSAGE_BYTES });
  const connection = servers.connection('ask');
  const onerror = (error: Error) =>
    log.warn('a message of the client is not valid', { reason: error.message });
  const handle = serveStdio(() => servers.server(connection), { transport, onerror });
  const { onclose } = transport;
  const closed = new Promise<void>((resolve) => {
    transport.onclose = () => {
      onclose?.();
      resolve();
    };
  });
  return { closed, close: () => handle.close() };
}
