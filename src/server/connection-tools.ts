import type { RpcConnection } from '../rpc/connection.ts';
import type { Handlers } from '../rpc/router.ts';
import type { Access } from './auth/access.ts';
import { capabilityHandlers } from './handlers/capability-handlers.ts';
import { environmentHandlers } from './handlers/environment-handlers.ts';
import { fileHandleHandlers } from './handlers/file-handle-handlers.ts';
import { fileHandlers } from './handlers/file-handlers.ts';
import { fileWatchHandlers } from './handlers/file-watch-handlers.ts';
import { httpHandlers } from './handlers/http-handlers.ts';
import { legacyHandlers } from './handlers/legacy-handlers.ts';
import { processHandlers } from './handlers/process-handlers.ts';
import { recordingHandlers } from './handlers/recording-handlers.ts';
import { sharingHandlers } from './handlers/sharing-handlers.ts';
import { tcpHandlers } from './handlers/tcp-handlers.ts';
import type { ConnectionRecords } from './records/records.ts';
import { ConnectionFiles } from './sessions/connection-files.ts';
import { ConnectionHttp, openHttpClient } from './sessions/connection-http.ts';
import { ConnectionPorts } from './sessions/connection-ports.ts';
import { ConnectionProcesses } from './sessions/connection-processes.ts';
import { ConnectionTcp } from './sessions/connection-tcp.ts';
import type { Session } from './sessions/session.ts';
import type { ConnectionServices } from './shared-services.ts';

/** What a connection uses to answer requests: its processes, files, HTTP requests, TCP streams and ports, and their handlers. */
export class ConnectionTools {
  readonly handlers: Handlers;
  readonly #processes: ConnectionProcesses;
  readonly #files: ConnectionFiles;
  readonly #http: ConnectionHttp;
  readonly #tcp: ConnectionTcp;
  readonly #ports: ConnectionPorts;

  constructor(
    shared: ConnectionServices,
    session: Session,
    access: Access,
    connection: RpcConnection,
    records: ConnectionRecords,
  ) {
    const { sessions, quotas, search, tcpConnector, portScanner, config, sandboxEnforcer } = shared;
    const files = new ConnectionFiles(
      connection,
      async (...asked) => (await search()).search(...asked, session),
      () => quotas.enterFileHandle(session),
      access.restrict(shared.fastPaths.files),
      sandboxEnforcer.files(access.below, session),
    );
    const http = new ConnectionHttp(connection, {
      client: () => openHttpClient(config, access),
      maxBodyBytes: config.maxHttpBodyBytes,
      enter: () => quotas.enterSocket(session),
      ...(connection.inProcess && { maxRequests: Number.POSITIVE_INFINITY }),
    });
    const processes = new ConnectionProcesses(session, sessions, access, connection, records);
    const tcp = new ConnectionTcp(connection, {
      connect: async (...target) => (await tcpConnector()).connect(...target),
      enter: () => quotas.enterSocket(session),
    });
    const ports = new ConnectionPorts(connection, portScanner, processes);
    const services = {
      config,
      session,
      processes,
      directory: sessions.directory,
      files,
      http,
      tcp,
      ports,
      portScanner,
      quotas,
      sandboxEnforcer,
      proxies: shared.proxies,
      recordings: shared.recordings,
      log: shared.log,
      environmentInfo: shared.environmentInfo,
      connection,
      records,
    };
    this.#processes = processes;
    this.#files = files;
    this.#http = http;
    this.#tcp = tcp;
    this.#ports = ports;
    this.handlers = records.recorded({
      ...environmentHandlers(services),
      ...capabilityHandlers(services),
      ...processHandlers(services),
      ...sharingHandlers(services),
      ...recordingHandlers(services),
      ...tcpHandlers(services),
      ...fileHandlers(services),
      ...fileHandleHandlers(services),
      ...fileWatchHandlers(services),
      ...httpHandlers(services),
      ...legacyHandlers(services),
    });
  }

  /** Pieces of HTTP bodies and TCP streams that were sent. A number that grows shows progress. */
  get piecesSent(): number {
    return this.#http.piecesSent + this.#tcp.chunksSent;
  }

  /** Stops or continues what is sent besides responses. */
  setPaused(paused: boolean): void {
    this.#processes.flowChanged();
    this.#files.setPaused(paused);
    this.#http.setPaused(paused);
    this.#tcp.setPaused(paused);
  }

  /** Stops or continues the work for further responses. */
  setHeld(held: boolean): void {
    this.#files.setHeld(held);
    this.#http.setHeld(held);
  }

  /** Resolves when all HTTP bodies and TCP streams have ended. */
  async finish(): Promise<void> {
    await Promise.all([this.#http.finish(), this.#tcp.finish()]);
  }

  /** Aborts all HTTP requests and TCP streams. */
  abortAll(): void {
    this.#http.abortAll();
    void this.#tcp.abortAll();
  }

  /** Releases everything immediately. Resolves when the files are closed, which may never happen on a dead mount. */
  dispose(): Promise<void> {
    this.#processes.dispose();
    this.#http.dispose();
    void this.#tcp.abortAll();
    this.#ports.dispose();
    return this.#files.dispose();
  }
}
