import type { RpcConnection } from '../../rpc/connection.ts';
import type { ExecServerConfig } from '../config.ts';
import type { ConnectionFiles } from '../connection-files.ts';
import type { EnvironmentInfo } from '../environment-info.ts';
import type { Quotas } from '../quotas.ts';
import type { ConnectionRecords } from '../records.ts';
import type { Session } from '../session.ts';

/** What the handlers of one connection work with. */
export interface HandlerServices {
  readonly config: ExecServerConfig;
  readonly session: Session;
  readonly files: ConnectionFiles;
  readonly quotas: Quotas;
  readonly records: ConnectionRecords;
  readonly connection: Pick<RpcConnection, 'notify'>;
  environmentInfo(): EnvironmentInfo;
}
