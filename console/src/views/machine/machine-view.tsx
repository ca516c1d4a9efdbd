import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { describeError } from '../../base/format.ts';
import { useStore } from '../../base/store.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { fetchMachine } from '../../session/api.ts';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { type Check, checksOf, type MachineReport, machineReport, type ReportRow } from './machine-report.ts';

/** The machine of the environment: what works on it, its limits, its metrics, and what was done lately. */
export function MachineView({ workspace }: { workspace: Workspace }): JSX.Element {
  const client = useStore(workspace.connection.client);
  const [report, setReport] = useState<MachineReport | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    try {
      setReport(machineReport(await fetchMachine(workspace.connection.name)));
      setError(null);
    } catch (failure) {
      setError(describeError(failure));
    }
    setBusy(false);
  };
  useEffect(() => void load(), [workspace]);
  const info = client?.environmentInfo;
  return (
    <section class="view machine-view" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title">This machine</h1>
        <span class="count">exec-server {workspace.session.version}</span>
        <span class="spring" />
        <button type="button" class="button small" disabled={busy} onClick={() => void load()}>
          <Icon name="refresh" size={14} />
          Check again
        </button>
      </header>
      {error !== null && <ErrorNotice text={`The machine cannot be examined. ${error}`} />}
      <div class="cards">
        {info && <Facts title="System" rows={systemRows(info)} />}
        {report?.groups.map(({ title, rows }) => <Facts key={title} title={title} rows={rows} />)}
        {report !== null && report.checks.length > 0 && <Checks report={report} />}
        {report !== null && <Audit report={report} />}
        {report === null && error === null && <div class="card placeholder" aria-busy="true" />}
      </div>
    </section>
  );
}

function systemRows(info: object): readonly ReportRow[] {
  return Object.entries(info)
    .filter(([, value]) => typeof value === 'string' || typeof value === 'number')
    .map(([name, value]) => ({ name: name.replaceAll(/([A-Z])/g, ' $1').toLowerCase(), value: String(value) }));
}

function Facts({ title, rows }: { title: string; rows: readonly ReportRow[] }): JSX.Element {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <dl>
        {rows.map(({ name, value }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="break">{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Checks({ report }: { report: MachineReport }): JSX.Element {
  const [all, setAll] = useState(false);
  const bad = report.checks.filter(({ state }) => state !== 'ok');
  const shown = all ? report.checks : bad;
  return (
    <section class="card full" aria-label="Checks">
      <h2>
        Checks
        <span class={bad.some(({ state }) => state === 'failed') ? 'chip failed' : 'chip ok'}>
          {report.checks.length - bad.length} of {report.checks.length} pass
        </span>
      </h2>
      {shown.length === 0 && <p class="dim">Everything that was checked works.</p>}
      {checksOf(shown).map(({ title, checks }) => (
        <div key={title} class="check-group">
          <h3>{title}</h3>
          {checks.map((check) => (
            <CheckRow key={check.name} check={check} />
          ))}
        </div>
      ))}
      <button type="button" class="text-button" aria-expanded={all} onClick={() => setAll(!all)}>
        {all ? 'Show only problems' : `Show all ${report.checks.length} checks`}
      </button>
    </section>
  );
}

function CheckRow({ check }: { check: Check }): JSX.Element {
  return (
    <div class={`check-row ${check.state}`}>
      <Icon name={check.state === 'ok' ? 'check' : 'warning'} size={16} />
      <div>
        <b>{check.name}</b> <span class="offscreen">({check.state})</span>
        <span class="dim">{check.detail}</span>
        {check.fix !== null && <p class="fix">{check.fix}</p>}
      </div>
    </div>
  );
}

function Audit({ report }: { report: MachineReport }): JSX.Element {
  return (
    <section class="card full" aria-label="Audit log">
      <h2>Audit log</h2>
      {report.audit.length === 0 ? (
        <Empty icon="processes" title="No audit records">
          <p>{report.auditNote ?? 'Start the server with an audit log to see here who did what.'}</p>
        </Empty>
      ) : (
        <div class="audit">
          {report.audit.map(({ time, subject, action, detail }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: records have no id and never move
            <div key={index} class="audit-row">
              <span class="dim number">{time}</span>
              <span>{subject}</span>
              <span class="mono">{action}</span>
              <span class="dim mono ellipsis" title={detail}>
                {detail}
              </span>
            </div>
          ))}
        </div>
      )}
    </section>
  );
}
