import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatBytes, formatCommand, formatDuration, formatTime } from '../../base/format.ts';
import { go, hrefOf, route } from '../../base/route.ts';
import { useStore } from '../../base/store.ts';
import type { ProcessSession } from '../../connection/process-session.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { copyText } from '../../ui/clipboard.ts';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { toast } from '../../ui/toasts.tsx';
import { OutputDisplay } from '../output/output-display.ts';
import { OutputView } from '../output/output-view.tsx';
import { KillDialog } from '../processes/kill-dialog.tsx';
import { statusOfTab } from '../processes/process-status.ts';
import type { TerminalDisplay } from './terminal-display.ts';
import { TerminalView } from './terminal-view.tsx';

/** One process: tabs of all open ones, what it is, and what it prints. */
export function ProcessView({
  workspace,
  session,
}: {
  workspace: Workspace;
  session: ProcessSession;
}): JSX.Element {
  const tabs = useStore(workspace.tabs);
  const state = useStore(session.state);
  const display = useStore(session.display);
  return (
    <section class="view process-view" aria-label="Process">
      <Tabs workspace={workspace} tabs={tabs} current={session} />
      {state.info !== null && <Facts workspace={workspace} session={session} />}
      {state.info === null && state.phase === 'attaching' && <div class="facts" aria-busy="true" />}
      {state.phase === 'lost' ? (
        <Empty icon="terminal" title="This process is no longer here">
          <p>
            No process has the reference or name <code>{session.ref}</code>.
          </p>
          <p>The server removes ended processes after some time, and all processes end when it restarts.</p>
          <button
            type="button"
            class="button"
            onClick={() => {
              workspace.closeTab(session.ref);
              go({ view: 'processes' });
            }}
          >
            Show all processes
          </button>
        </Empty>
      ) : (
        <div class="process-body">
          <div class="notices">
            {state.error !== null && (
              <ErrorNotice text={state.error} onClose={() => session.dismissError()} />
            )}
            {state.phase === 'live' && state.role === 'viewer' && !state.isDriven && session.mayDrive && (
              <div class="notice" role="status">
                <Icon name="keyboard" />
                <span>Nobody drives: the driver has left.</span>
                <button type="button" class="button small" onClick={() => void session.takeOver()}>
                  Take over
                </button>
              </div>
            )}
            {state.takenOver && state.role === 'viewer' && state.isDriven && (
              <div class="notice" role="status">
                <Icon name="people" />
                <span>Another client has taken over. You are watching.</span>
                <button type="button" class="button small" onClick={() => void session.takeOver()}>
                  Take back
                </button>
                <button
                  type="button"
                  class="icon-button small"
                  aria-label="Dismiss"
                  onClick={() => session.dismissError()}
                >
                  <Icon name="close" size={15} />
                </button>
              </div>
            )}
          </div>
          {display === null ? (
            <div class="terminal-frame" aria-busy="true" />
          ) : display instanceof OutputDisplay ? (
            <OutputView key={session.ref} session={session} display={display} />
          ) : (
            <TerminalView key={session.ref} session={session} display={display as TerminalDisplay} />
          )}
        </div>
      )}
    </section>
  );
}

function Tabs({
  workspace,
  tabs,
  current,
}: {
  workspace: Workspace;
  tabs: readonly ProcessSession[];
  current: ProcessSession;
}): JSX.Element {
  const close = (tab: ProcessSession) => {
    const index = tabs.indexOf(tab);
    workspace.closeTab(tab.ref);
    if (tab !== current) return;
    const next = tabs[index + 1] ?? tabs[index - 1];
    go({ view: 'processes', item: next?.ref ?? null });
  };
  return (
    <nav class="tabs" aria-label="Open processes">
      <a
        class="icon-button"
        href={hrefOf({ ...route.value, item: null })}
        aria-label="All processes"
        title="All processes"
      >
        <Icon name="back" />
      </a>
      <ul class="tab-list">
        {tabs.map((tab) => (
          <Tab key={tab.ref} tab={tab} isCurrent={tab === current} onClose={() => close(tab)} />
        ))}
      </ul>
    </nav>
  );
}

function Tab({
  tab,
  isCurrent,
  onClose,
}: {
  tab: ProcessSession;
  isCurrent: boolean;
  onClose: () => void;
}): JSX.Element {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isCurrent) element.current?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [isCurrent]);
  const { info, phase } = useStore(tab.state);
  const label = info === null ? tab.ref : (info.name ?? formatCommand(info.argv));
  const kind = info === null ? 'done' : statusOfTab(info, phase === 'lost').kind;
  return (
    <li ref={element} class={isCurrent ? 'tab current' : 'tab'}>
      <a
        aria-current={isCurrent ? 'page' : undefined}
        href={hrefOf({ ...route.value, item: tab.ref })}
        title={label}
      >
        <span class={`dot ${kind}`} />
        <span class="ellipsis">{label}</span>
      </a>
      <button type="button" class="icon-button tiny" aria-label={`Close tab ${label}`} onClick={onClose}>
        <Icon name="close" size={13} />
      </button>
    </li>
  );
}

function Facts({ workspace, session }: { workspace: Workspace; session: ProcessSession }): JSX.Element {
  const { info, role, watchers, isDriven, phase } = useStore(session.state);
  const { ports } = useStore(workspace.list.state);
  const [killing, setKilling] = useState(false);
  const process = info!;
  const status = statusOfTab(process, phase === 'lost');
  const isOver = process.state === 'closed' || phase === 'lost';
  const own = ports.get(session.ref) ?? [];
  const copyLink = async () => {
    const copied = await copyText(location.href);
    toast(copied ? 'Link copied. It works for people who can sign in here.' : 'The browser refused to copy.');
  };
  return (
    <header class="facts">
      <div class="facts-main">
        <h1 class="mono ellipsis" title={`${formatCommand(process.argv)}\nin ${process.cwd}`}>
          {formatCommand(process.argv)}
        </h1>
        <p class="facts-line">
          <span class={`state ${status.kind}`} title={status.detail}>
            <span class={`dot ${status.kind}`} />
            {status.text}
          </span>
          {(process.endedAt !== null || !isOver) && (
            <span title={`Started ${formatTime(process.startedAt)}`}>
              {formatDuration((process.endedAt ?? new Date()).getTime() - process.startedAt.getTime())}
            </span>
          )}
          <span class="mono">{session.ref}</span>
          <span class="mono ellipsis desktop" title="Working directory">
            {process.cwd}
          </span>
          {process.outputBytes !== null && <span class="desktop">{formatBytes(process.outputBytes)}</span>}
          {own.map((port) => (
            <span key={port} class="chip">
              :{port}
            </span>
          ))}
        </p>
      </div>
      <div class="facts-actions">
        {phase === 'live' && process.state !== 'closed' && (
          <>
            {watchers > 0 && (
              <span
                class="watchers"
                title={`${watchers} other ${watchers === 1 ? 'client watches' : 'clients watch'}`}
              >
                <Icon name="eye" size={16} />
                {watchers} <span class="desktop">{role === 'viewer' ? 'more watching' : 'watching'}</span>
              </span>
            )}
            <span
              class={role === 'driver' ? 'badge driver' : 'badge'}
              data-role={role}
              title={
                role === 'driver'
                  ? 'Your keys reach the program, and the terminal has the size of your window.'
                  : `${isDriven ? 'You see the terminal of another client.' : 'Nobody drives.'} Take over to type.`
              }
            >
              <Icon name={role === 'driver' ? 'keyboard' : 'eye'} size={15} />
              {role === 'driver' ? 'Driving' : 'Watching'}
            </span>
            {role === 'viewer' && isDriven && workspace.mayExec && (
              <button type="button" class="button small primary" onClick={() => void session.takeOver()}>
                Take over
              </button>
            )}
          </>
        )}
        <button
          type="button"
          class="icon-button"
          aria-label="Copy link"
          title="Copy a link to this process"
          onClick={() => void copyLink()}
        >
          <Icon name="link" />
        </button>
        {workspace.mayExec && !isOver && (
          <button
            type="button"
            class="icon-button"
            aria-label="End process"
            title="End this process"
            onClick={() => setKilling(true)}
          >
            <Icon name="stop" />
          </button>
        )}
      </div>
      {killing && <KillDialog workspace={workspace} process={process} onClose={() => setKilling(false)} />}
    </header>
  );
}
