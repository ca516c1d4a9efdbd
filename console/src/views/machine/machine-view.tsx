import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { MachineCheck, MachineLimit, MachineReport } from '../../../../src/console/machine-report.ts';
import { describeError } from '../../base/format.ts';
import { useStore } from '../../base/store.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { ApiError, fetchMachine } from '../../session/api.ts';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { auditRow, metricRows, type ReportRow, systemRows } from './report-rows.ts';

/** The machine of the environment: what works on it, its limits, its metrics, and what was done lately. */
export function MachineView({ workspace }: { workspace: Workspace }): JSX.Element {
  const client = useStore(workspace.connection.client);
  const [report, setReport] = useState<MachineReport | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(true);
  const load = async () => {
    setBusy(true);
    try {
      setReport((await fetchMachine(workspace.connection.name)) as MachineReport | null);
      setError(null);
    } catch (failure) {
      setReport(null);
      const isUnknown = failure instanceof ApiError && failure.code === 'notFound';
      setError(isUnknown ? null : describeError(failure));
    }
    setBusy(false);
  };
  useEffect(() => void load(), [workspace]);
  const directory = client?.environmentInfo?.cwd ?? null;
  return (
    <section class="view machine-view" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title" class="ellipsis">
          {report === null ? workspace.label : 'This machine'}
        </h1>
        {report !== null && <span class="count">exec-server {report.version}</span>}
        <span class="spring" />
        <button type="button" class="button small" disabled={busy} onClick={() => void load()}>
          <Icon name="refresh" size={14} />
          Check again
        </button>
      </header>
      {error !== null && <ErrorNotice text={`The machine cannot be examined. ${error}`} />}
      {report === null ? (
        error === null &&
        (busy ? (
          <div class="card placeholder" aria-busy="true" />
        ) : (
          <Empty icon="machine" title={`No facts about the machine of ${workspace.label}`}>
            <p>
              This console knows them for its own machine only. Open the console of that server, or run{' '}
              <code>exec-server doctor</code> there.
            </p>
          </Empty>
        ))
      ) : (
        <div class="cards">
          <Facts
            title="System"
            rows={systemRows(report, directory && decodeURI(new URL(directory).pathname))}
          />
          {report.metrics !== null && <Facts title="Server" rows={metricRows(report.metrics)} />}
          <Checks checks={report.checks} />
          <Limits limits={report.limits} />
          <Audit audit={report.audit} />
        </div>
      )}
    </section>
  );
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

/** The checks of `exec-server doctor` that take no time. What works is shown on demand. */
function Checks({ checks }: { checks: readonly MachineCheck[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const problems = checks.filter(({ state }) => state !== 'ok');
  const shown = all ? checks : problems;
  return (
    <section class="card full" aria-label="Checks">
      <h2>
        Checks
        <span class={problems.some(({ state }) => state === 'failed') ? 'chip failed' : 'chip ok'}>
          {checks.length - problems.length} of {checks.length} pass
        </span>
      </h2>
      {shown.length === 0 && <p class="dim">Everything that was checked works.</p>}
      <ul>
        {shown.map((check) => (
          <CheckRow key={check.name} check={check} />
        ))}
      </ul>
      {problems.length < checks.length && (
        <button type="button" class="text-button" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? 'Show only problems' : `Show all ${checks.length} checks`}
        </button>
      )}
    </section>
  );
}

function CheckRow({ check: { name, state, detail, fix } }: { check: MachineCheck }): JSX.Element {
  return (
    <li class={`check-row ${state}`}>
      <Icon name={state === 'ok' ? 'check' : 'warning'} size={16} />
      <div>
        <b>{name}</b>
        <span class="offscreen">{state}</span> <span class="dim">{detail}</span>
        {fix !== null && <p class="fix">{fix}</p>}
      </div>
    </li>
  );
}

/** The limits of the server. Those that differ from the default come first, the others on demand. */
function Limits({ limits }: { limits: readonly MachineLimit[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const changed = limits.filter(({ isDefault }) => !isDefault);
  const shown = all ? limits : changed;
  return (
    <section class="card full" aria-label="Limits">
      <h2>Limits</h2>
      {shown.length === 0 && <p class="dim">All limits have their default value.</p>}
      <dl class="limits">
        {shown.map(({ name, value, isDefault, description }) => (
          <div key={name} class={isDefault ? '' : 'changed'}>
            <dt>
              <span class="mono">{name}</span>
              <span class="dim">{description}</span>
            </dt>
            <dd class="mono">{value}</dd>
          </div>
        ))}
      </dl>
      {changed.length < limits.length && (
        <button type="button" class="text-button" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? 'Show only changed limits' : `Show all ${limits.length} limits`}
        </button>
      )}
    </section>
  );
}

function Audit({ audit }: { audit: MachineReport['audit'] }): JSX.Element {
  return (
    <section class="card full" aria-label="Audit log">
      <h2>Audit log</h2>
      {audit === null || audit.length === 0 ? (
        <Empty icon="processes" title="No audit records">
          <p>
            Start the server with <code>--audit-log FILE</code> to see here who did what. A link for watching
            does not show them.
          </p>
        </Empty>
      ) : (
        <div class="audit" tabIndex={0} role="region" aria-label="Latest records">
          {audit
            .toReversed()
            .map(auditRow)
            .map(({ time, subject, event, detail }, index) => (
              <div key={index} class="audit-row">
                <span class="dim number">{time}</span>
                <span class="mono">{event}</span>
                <span class="ellipsis" title={subject}>
                  {subject}
                </span>
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
