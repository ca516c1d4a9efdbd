import type { JSX } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ProcessInfo } from '../../../../src/client/browser.ts';
import { formatCommand } from '../../base/format.ts';
import { go } from '../../base/route.ts';
import { type Store, useStore } from '../../base/store.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { KillDialog } from './kill-dialog.tsx';
import { ProcessTable } from './process-table.tsx';
import { StartCommand } from './start-command.tsx';

type Shown = 'all' | 'running' | 'ended';

/** All processes of the environment, and a line to start another one. */
export function ProcessesView({ workspace }: { workspace: Workspace }): JSX.Element {
  const { processes, ports, error, isRefused } = useStore(workspace.list.state);
  const everyone = useStore(workspace.list.everyone);
  const client = useStore(workspace.connection.client);
  const [filter, setFilter] = useState('');
  const [shown, setShown] = useState<Shown>('all');
  const [killing, setKilling] = useState<ProcessInfo | null>(null);
  const filterField = useRef<HTMLInputElement>(null);
  const found = useMemo(
    () =>
      (processes ?? []).filter(
        (process) => isShown(process, shown) && matches(process, filter, ports.get(process.ref ?? '')),
      ),
    [processes, ports, filter, shown],
  );
  const owners = useMemo(() => new Set(processes?.map(({ owner }) => owner)), [processes]);
  const running = (processes ?? []).filter(({ state }) => state !== 'closed').length;

  useLayoutEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const isFilter = event.target === filterField.current;
      if (event.key === '/' && !isTyping(event.target)) filterField.current?.focus();
      else if (event.key === 'ArrowDown' && (isFilter || event.target === document.body))
        document.querySelector<HTMLElement>('[role=grid]')?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, []);

  if (isRefused) {
    return (
      <section class="view" aria-label="Processes">
        <Empty icon="processes" title="No access to processes">
          <p>This link may not see processes. Sign in with a token that has the scope exec or observe.</p>
        </Empty>
      </section>
    );
  }
  return (
    <section class="view" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title">Processes</h1>
        <span class="count">
          {processes === null ? '' : `${running} running · ${processes.length - running} ended`}
        </span>
      </header>
      {workspace.mayExec && <StartCommand workspace={workspace} />}
      <div class="toolbar">
        <label class="field search">
          <Icon name="search" size={16} />
          <input
            ref={filterField}
            type="search"
            placeholder="Filter by command, name, port…"
            aria-label="Filter processes"
            aria-keyshortcuts="/"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
          <kbd class="desktop">/</kbd>
        </label>
        <div class="segments" role="group" aria-label="Which processes to show">
          {(['all', 'running', 'ended'] as const).map((name) => (
            <button key={name} type="button" aria-pressed={shown === name} onClick={() => setShown(name)}>
              {name[0]!.toUpperCase() + name.slice(1)}
            </button>
          ))}
        </div>
        {workspace.session.scopes.observe && client?.capabilities.processSharing && (
          <EveryoneCheck everyone={workspace.list.everyone} />
        )}
      </div>
      {error !== null && <ErrorNotice text={`The list of processes cannot be read. ${error}`} />}
      {processes === null ? (
        <div class="table-placeholder" aria-busy="true" />
      ) : found.length > 0 ? (
        <ProcessTable
          processes={found}
          ports={ports}
          showOwner={everyone && owners.size > 1}
          onOpen={(process) => go({ view: 'processes', item: process.ref ?? process.processId })}
          onKill={workspace.mayExec ? setKilling : null}
        />
      ) : processes.length > 0 ? (
        <Empty icon="search" title="No process matches">
          <button
            type="button"
            class="button"
            onClick={() => {
              setFilter('');
              setShown('all');
            }}
          >
            Show all {processes.length}
          </button>
        </Empty>
      ) : (
        <Empty icon="terminal" title="Nothing runs here yet">
          {workspace.mayExec ? (
            <p>
              Type a command above and press Enter. It keeps running when you close this page. Commands that
              you start with <code>exec-server run</code> appear here too.
            </p>
          ) : (
            <p>
              Commands appear here as soon as they are started. This link can watch them, but not start any.
            </p>
          )}
        </Empty>
      )}
      {killing !== null && (
        <KillDialog workspace={workspace} process={killing} onClose={() => setKilling(null)} />
      )}
    </section>
  );
}

/** Whether processes and recordings of all owners are listed. */
export function EveryoneCheck({ everyone }: { everyone: Store<boolean> }): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={useStore(everyone)}
        onChange={(event) => everyone.set(event.currentTarget.checked)}
      />
      All owners
    </label>
  );
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.matches('input, textarea, select, dialog *') || target.isContentEditable)
  );
}

function isShown({ state }: ProcessInfo, shown: Shown): boolean {
  return shown === 'all' || (state === 'closed') === (shown === 'ended');
}

function matches(process: ProcessInfo, filter: string, ports: readonly number[] = []): boolean {
  const text = [
    process.ref,
    process.name,
    formatCommand(process.argv),
    process.cwd,
    process.owner,
    ...ports.map((port) => `:${port}`),
  ]
    .join(' ')
    .toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
