import { type Readable, Transform, type Writable } from 'node:stream';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { LineSplitter } from '../base/line-splitter.ts';
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
  const onerror = ({ message }: Error) => log.warn('invalid message of the client', { reason: message });
  const lines = input.pipe(wholeLines());
  input.once('error', () => lines.end());
  lines.once('error', onerror);
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

/**
 * Passes on whole lines. The transport of the SDK copies all that it has for each chunk that it gets, which takes seconds for a message
 * of some megabytes.
 */
function wholeLines(): Transform {
  const splitter = new LineSplitter(MAX_MESSAGE_BYTES);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      try {
        for (const line of splitter.push(chunk)) this.push(Buffer.concat([line, NEWLINE]));
        done();
      } catch (error) {
        done(error as Error);
      }
    },
  });
}

const NEWLINE = Buffer.from('\n');
