import type { MachineReport } from '../../../../src/console/machine-report.ts';
import { formatBytes, formatDuration, formatTime } from '../../base/format.ts';

export interface ReportRow {
  readonly name: string;
  readonly value: string;
}

export function systemRows(report: MachineReport, workingDirectory: string | null): readonly ReportRow[] {
  const { hostname, system, node, cpus, loadAverage, memory, uptimeSeconds } = report;
  const used = memory.totalBytes - memory.freeBytes;
  return [
    { name: 'Host', value: hostname },
    { name: 'System', value: system },
    { name: 'Node', value: node },
    { name: 'Processors', value: `${cpus}, load ${loadAverage.map((load) => load.toFixed(1)).join(' · ')}` },
    { name: 'Memory', value: `${formatBytes(used)} of ${formatBytes(memory.totalBytes)} used` },
    { name: 'Up', value: formatDuration(uptimeSeconds * 1000) },
    ...(workingDirectory === null ? [] : [{ name: 'Directory', value: workingDirectory }]),
  ];
}

/** The metrics with names for people. An inner object becomes one row per member. */
export function metricRows(metrics: Readonly<Record<string, unknown>>): readonly ReportRow[] {
  return Object.entries(metrics).flatMap(([name, value]) => {
    if (typeof value === 'object' && value !== null) {
      return Object.entries(value).map(([inner, each]) => metricRow(`${name} ${inner}`, each));
    }
    return [metricRow(name, value)];
  });
}

function metricRow(name: string, value: unknown): ReportRow {
  const words = name
    .replaceAll(/([A-Z])/g, ' $1')
    .toLowerCase()
    .replace('processes processes', 'processes');
  const label = `${words[0]!.toUpperCase()}${words.slice(1)}`;
  if (typeof value !== 'number') return { name: label, value: String(value) };
  return { name: label, value: words.endsWith(' bytes') ? formatBytes(value) : value.toLocaleString() };
}

export interface AuditRow {
  readonly time: string;
  readonly subject: string;
  readonly event: string;
  readonly detail: string;
}

/** Members of a record that a row shows elsewhere, or that only programs need: its place in the chain, its connection. */
const NO_DETAILS = new Set([
  ...['v', 'seq', 'hash', 'prev', 'previous', 'time', 'ts', 'event', 'subject'],
  ...['who', 'connection', 'session'],
]);

export function auditRow(record: object): AuditRow {
  const { time, ts, event, who } = record as Readonly<Record<string, unknown>>;
  const { tokenId, kind } = (who ?? {}) as { readonly tokenId?: unknown; readonly kind?: unknown };
  const when = time ?? ts;
  const date = typeof when === 'number' || typeof when === 'string' ? new Date(when) : null;
  const details = Object.entries(record).filter(([name]) => !NO_DETAILS.has(name));
  return {
    time: date === null || Number.isNaN(date.getTime()) ? '' : formatTime(date),
    subject: String(tokenId ?? kind ?? ''),
    event: String(event ?? ''),
    detail: details
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join('  '),
  };
}
