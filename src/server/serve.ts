import type { Readable, Writable } from 'node:stream';
import { parseListenUrl } from '../listener/listen-url.ts';
import { StartError } from '../listener/start-error.ts';
import { createLogger } from '../observability/log.ts';
import { logStream } from '../observability/log-stream.ts';
import { StdioTransport } from '../transport/stdio.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import type { Principal } from './auth/principal.ts';
import type { ExecServerConfig, ServerSettings } from './config/config.ts';
import { configOf } from './config/resolve.ts';
import type { DrainStatus } from './draining.ts';
import { ExecServer, type ServeOptions } from './exec-server.ts';
import { checkSettings } from './start-checks.ts';

/** A running server. */
export interface RunningServer {
  /** The URL that clients connect to; null when the server does not listen. */
  readonly url: string | null;
  /** The URL of `/metrics` on a listener of its own (`metricsListen`); null without one. */
  readonly metricsUrl: string | null;
  /** Resolves when the server has shut down, for whatever reason. */
  readonly closed: Promise<void>;
  /** Stops accepting clients, lets programs end, kills the rest, and closes every connection with the reason. */
  close(reason?: string): Promise<void>;
  /**
   * Refuses new work, waits until the last program has ended, and closes. After `timeoutMs` it ends the rest. Default: the setting
   * `drainTimeoutMs`. Another call with a time changes how long the server waits.
   */
  drain(timeoutMs?: number): Promise<void>;
  /** What the server waits for while it drains; null while it does not. */
  drainStatus(): DrainStatus | null;
  /** Reloads certificates, revoked tokens and the audit log file. Resolves to false when none of them is configured. */
  reload(): Promise<boolean>;
  /** Whether there is no connection, no session and no process whose output is kept. */
  isIdle(): boolean;
  /** Serves one client over a transport that the caller has authenticated. Resolves when the connection is closed. */
  accept(transport: Transport, principal?: Principal): Promise<CloseReason>;
  /**
   * Creates a link that signs one browser in to the web console. It can be used once and expires after a minute. Null without a
   * console, and where clients need a token: `exec-server console --link` creates a link with the rights of a token.
   */
  consoleLink(): string | null;
  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves on the configured address. Resolves when clients can connect and start programs. Rejects with StartError for settings that
 * the server cannot honour.
 */
export async function serve(complete: ExecServerConfig, options: ServeOptions = {}): Promise<RunningServer> {
  const config = configOf(complete);
  const address = parseListenUrl(config.listen);
  if (address.kind === 'stdio') {
    throw new StartError(
      'listen: `stdio` has no address; call serveStdio with the streams, or choose another listen URL',
    );
  }
  await checkSettings(config, address);
  const server = new ExecServer(config, options);
  try {
    if (address.kind !== 'off')
      return runningServer(server, await server.listen(address, options.descriptor));
    await server.openRecords();
    return runningServer(server, null);
  } catch (error) {
    // Closes the audit log, which may be open already.
    await server.close();
    throw error;
  }
}

/**
 * Runs a server like the program `exec-server`, with the given settings and the defaults of the others. The program also reads
 * settings from its environment, a file and flags, and ends on signals. Rejects with StartError for settings that the server cannot
 * honour; those with an unknown name or an invalid value are a ConfigError.
 */
export async function runServer(settings: ServerSettings = {}): Promise<RunningServer> {
  return serve(configOf(settings));
}

/** Serves one client over a pair of streams. The server ends with the connection, and the session cannot be resumed. */
export async function serveStdio(
  complete: ExecServerConfig,
  input: Readable,
  output: Writable,
): Promise<RunningServer> {
  const config = configOf(complete);
  await checkSettings(config, { kind: 'stdio' });
  const log = createLogger(config.logLevel, logStream(process.stderr));
  const server = new ExecServer({ ...config, detachedSessionTtlMs: 0, initializeTimeoutMs: 0 }, { log });
  await server.openRecords();
  void server
    .accept(new StdioTransport(input, output, { ...config, isServer: true }))
    .then(({ code, reason }) => {
      // A pipe has no close code, so the reason goes to stderr.
      if (REFUSED_INPUT.includes(code)) log.error('the input was refused', { reason });
      return server.close();
    });
  return runningServer(server, null);
}

const REFUSED_INPUT: readonly number[] = [CloseCode.messageTooBig, CloseCode.protocolError];

function runningServer(server: ExecServer, url: string | null): RunningServer {
  return {
    url,
    metricsUrl: server.metricsUrl,
    closed: server.closed,
    close: (reason) => server.close(reason),
    drain: (timeoutMs) => server.drain(timeoutMs),
    drainStatus: () => server.drainStatus,
    [Symbol.asyncDispose]: () => server.close(),
    reload: () => server.reload(),
    isIdle: () => server.isIdle,
    accept: (transport, principal) => server.accept(transport, principal),
    consoleLink: () => (url === null ? null : server.consoleLink(url)),
  };
}
