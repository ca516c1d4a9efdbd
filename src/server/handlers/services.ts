import type { ProxyResources } from '../../network/proxy/proxy-resources.ts';
import type { Logger } from '../../observability/log.ts';
import type { RecordingStore } from '../../recording/recording-store.ts';
import type { RpcConnection } from '../../rpc/connection.ts';
import type { SandboxEnforcer } from '../../sandbox/sandbox-enforcer.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { EnvironmentInfo } from '../environment-info.ts';
import type { ConnectionRecords } from '../records/records.ts';
import type { ConnectionFiles } from '../sessions/connection-files.ts';
import type { ConnectionHttp } from '../sessions/connection-http.ts';
import type { ConnectionPorts } from '../sessions/connection-ports.ts';
import type { ConnectionProcesses } from '../sessions/connection-processes.ts';
import type { ConnectionTcp } from '../sessions/connection-tcp.ts';
import type { PortScanner } from '../sessions/port-scanner.ts';
import type { ProcessDirectory } from '../sessions/process-directory.ts';
import type { Quotas } from '../sessions/quotas.ts';
import type { Session } from '../sessions/session.ts';

/** The dependencies of the handlers of one connection. */
export interface HandlerServices {
  readonly config: ExecServerConfig;
  readonly session: Session;
  readonly processes: ConnectionProcesses;
  readonly directory: ProcessDirectory;
  readonly files: ConnectionFiles;
  readonly http: ConnectionHttp;
  readonly tcp: ConnectionTcp;
  readonly ports: ConnectionPorts;
  /** The listening ports of all processes. */
  readonly portScanner: PortScanner;
  readonly quotas: Quotas;
  /** Null where recordings are switched off. */
  readonly recordings: RecordingStore | null;
  readonly sandboxEnforcer: SandboxEnforcer;
  readonly proxies: ProxyResources;
  readonly log: Logger;
  readonly records: ConnectionRecords;
  readonly connection: Pick<RpcConnection, 'notify'>;
  environmentInfo(): EnvironmentInfo;
}
