import { availableParallelism, freemem, hostname, loadavg, release, totalmem, uptime } from 'node:os';
import { readAuditTail } from '../../audit/audit-tail.ts';
import { VERSION } from '../../observability/version.ts';
import type { Check } from '../../sandbox/self-test/check.ts';
import type { Access } from '../auth/access.ts';
import { CONFIG_OPTIONS, type ExecServerConfig } from '../config/config.ts';
import { formatConfigValue } from '../config/values.ts';
import type { ServerState } from '../records/server-metrics.ts';
import { machineChecks } from './machine-checks.ts';

/** A limit of the server and its value, for people. */
interface Limit {
  readonly name: string;
  readonly value: string;
  readonly isDefault: boolean;
  readonly description: string;
}

/** What the console shows about the machine and its server. */
interface MachineFacts {
  readonly version: string;
  readonly node: string;
  readonly system: string;
  readonly hostname: string;
  readonly cpus: number;
  readonly loadAverage: readonly number[];
  readonly memory: { readonly totalBytes: number; readonly freeBytes: number };
  readonly uptimeSeconds: number;
  readonly checks: readonly Check[];
  readonly limits: readonly Limit[];
  /** Null without the scope `metrics`, and for another process. */
  readonly metrics: (Omit<ServerState, 'audit'> & { readonly memoryBytes: number }) | null;
  /** The latest records, the oldest first. Null without the scopes `metrics` and `observe`, and without an audit log. */
  readonly audit: readonly object[] | null;
}

/** Describes this machine and the server with this configuration. `state` is null when the server is another process. */
export async function machineFacts(
  config: ExecServerConfig,
  access: Pick<Access, 'metrics' | 'observe'>,
  state: Omit<ServerState, 'audit'> | null,
  env: NodeJS.ProcessEnv,
): Promise<MachineFacts> {
  // Metrics and audit log are about all clients.
  const showsMetrics = access.metrics && state !== null;
  const showsAudit = access.metrics && access.observe && config.auditLog !== '';
  return {
    version: VERSION,
    node: process.version,
    system: `${process.platform} ${release()} ${process.arch}`,
    hostname: hostname(),
    cpus: availableParallelism(),
    loadAverage: loadavg(),
    memory: { totalBytes: totalmem(), freeBytes: freemem() },
    uptimeSeconds: uptime(),
    checks: await machineChecks(env),
    limits: limitsOf(config),
    metrics: showsMetrics ? { ...state, memoryBytes: process.memoryUsage.rss() } : null,
    audit: showsAudit ? await readAuditTail(config.auditLog).catch(() => []) : null,
  };
}

function limitsOf(config: ExecServerConfig): Limit[] {
  return CONFIG_OPTIONS.filter(
    ({ type }) => type === 'integer' || type === 'duration' || type === 'bytes',
  ).map((option) => ({
    name: option.key,
    value: formatConfigValue(option, config[option.key]),
    isDefault: config[option.key] === option.default,
    description: option.description.replaceAll('`', ''),
  }));
}
