import { formatTime } from '../../base/format.ts';

/** One check of `doctor`. */
export interface Check {
  readonly group: string;
  readonly name: string;
  readonly state: 'ok' | 'failed' | 'missing' | 'untested';
  readonly detail: string;
  readonly fix: string | null;
}

export interface ReportRow {
  readonly name: string;
  readonly value: string;
}

export interface AuditRow {
  readonly time: string;
  readonly subject: string;
  readonly action: string;
  readonly detail: string;
}

/** The answer of the server, in the order in which it is shown. */
export interface MachineReport {
  readonly checks: readonly Check[];
  readonly groups: readonly { readonly title: string; readonly rows: readonly ReportRow[] }[];
  readonly audit: readonly AuditRow[];
  readonly auditNote: string | null;
}

type Json = Readonly<Record<string, unknown>>;

const MAX_ROWS = 60;
const MAX_AUDIT_ROWS = 200;

/** Reads the answer of `GET /console/machine`. Unknown parts are shown as they are; missing ones are left out. */
export function machineReport(answer: unknown): MachineReport {
  const { doctor, audit, ...others } = isObject(answer) ? answer : {};
  const checks = isObject(doctor) && Array.isArray(doctor.checks) ? (doctor.checks as Check[]) : [];
  const groups = Object.entries(others)
    .map(([name, value]) => ({ title: titleOf(name), rows: rowsOf(value).slice(0, MAX_ROWS) }))
    .filter(({ rows }) => rows.length > 0);
  const records = Array.isArray(audit) ? audit : isObject(audit) && Array.isArray(audit.records) ? audit.records : [];
  return {
    checks,
    groups,
    audit: records.filter(isObject).slice(-MAX_AUDIT_ROWS).toReversed().map(auditRow),
    auditNote: isObject(audit) && typeof audit.note === 'string' ? audit.note : null,
  };
}

/** Checks by their group. */
export function checksOf(checks: readonly Check[]): readonly { readonly title: string; readonly checks: readonly Check[] }[] {
  const titles = [...new Set(checks.map(({ group }) => group))];
  return titles.map((title) => ({ title, checks: checks.filter(({ group }) => group === title) }));
}

function rowsOf(value: unknown, prefix = ''): readonly ReportRow[] {
  if (!isObject(value)) return value === null || value === undefined || prefix === '' ? [] : [{ name: prefix, value: shown(value) }];
  return Object.entries(value).flatMap(([name, inner]) => rowsOf(inner, prefix === '' ? name : `${prefix}.${name}`));
}

function shown(value: unknown): string {
  if (typeof value === 'number') return value.toLocaleString();
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function auditRow(record: Json): AuditRow {
  const { time, timeMs, at, subject, owner, method, event, type, ...rest } = record;
  const when = timeMs ?? at ?? time;
  const date = typeof when === 'number' || typeof when === 'string' ? new Date(when) : null;
  return {
    time: date === null || Number.isNaN(date.getTime()) ? '' : formatTime(date),
    subject: String(subject ?? owner ?? ''),
    action: String(method ?? event ?? type ?? ''),
    detail: JSON.stringify(rest),
  };
}

function titleOf(name: string): string {
  return `${name[0]!.toUpperCase()}${name.slice(1).replaceAll(/([A-Z])/g, ' $1').toLowerCase()}`;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
