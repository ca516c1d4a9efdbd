import type { Readable, Writable } from 'node:stream';
import { ProtocolErrorCode } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Logger } from '../observability/log.ts';
import type { AgentServers } from './agent-server.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { messageLines } from './message-lines.ts';

/** A client on a pair of streams. */
interface StdioClient {
  /** Resolves when the client is gone: its stream has ended. */
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
  const onerror = ({ message, code }: NodeJS.ErrnoException) => {
    if (code !== undefined && CLIENT_GONE.has(code)) log.debug('the client is gone', { reason: message });
    else log.warn('invalid message of the client', { reason: message });
  };
  const lines = input.pipe(
    messageLines(MAX_MESSAGE_BYTES, ({ id }) => {
      onerror(new Error(`it has more than ${MAX_MESSAGE_BYTES} bytes`));
      if (id !== null) output.write(tooLong(id));
    }),
  );
  input.once('error', () => lines.end());
  const transport = new StdioServerTransport(lines, output, { maxBufferSize: MAX_MESSAGE_BYTES + 1 });
  const connection = servers.connection('ask');
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

/** The errors of writing to a client that has ended. */
const CLIENT_GONE: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'ERR_STREAM_DESTROYED']);

/** The answer to a request that was not read. */
function tooLong(id: string | number): string {
  const message = `The message has more than ${MAX_MESSAGE_BYTES} bytes and was not read. Send less at a time; a command can write a large file.`;
  return `${JSON.stringify({ jsonrpc: '2.0', id, error: { code: ProtocolErrorCode.InvalidRequest, message } })}\n`;
}
