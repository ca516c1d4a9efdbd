import { availableParallelism, freemem, hostname, loadavg, release, totalmem, uptime } from 'node:os';
import { readAuditTail } from '../../audit/audit-tail.ts';
import type { MachineLimit, MachineReport } from '../../console/machine-report.ts';
import { VERSION } from '../../observability/version.ts';
import type { Access } from '../auth/access.ts';
import { CONFIG_OPTIONS, type ExecServerConfig } from '../config/config.ts';
import { formatConfigValue } from '../config/values.ts';
import type { ServerState } from '../records/server-metrics.ts';
import { machineChecks } from './machine-checks.ts';

/** Describes this machine and the server with this configuration. `state` is null when the server is another process. */
export async function machineFacts(
  config: ExecServerConfig,
  access: Pick<Access, 'metrics' | 'observe'>,
  state: Omit<ServerState, 'audit'> | null,
  env: NodeJS.ProcessEnv,
): Promise<MachineReport> {
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

function limitsOf(config: ExecServerConfig): MachineLimit[] {
  return CONFIG_OPTIONS.filter(
    ({ type }) => type === 'integer' || type === 'duration' || type === 'bytes',
  ).map((option) => ({
    name: option.key,
    value: formatConfigValue(option, config[option.key]),
    isDefault: config[option.key] === option.default,
    description: option.description.replaceAll('`', ''),
  }));
}
