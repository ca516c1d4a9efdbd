import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { go, hrefOf, leaveFor, parseRoute, route, type View } from './base/route.ts';
import { useStore } from './base/store.ts';
import { ConnectionBanner, ConnectionPill, Unreachable } from './connection/connection-status.tsx';
import { Workspace } from './connection/workspace.ts';
import { createDisplay } from './displays.ts';
import { KeptDrafts } from './drafts/kept-drafts.tsx';
import { EnvironmentPicker, UnknownEnvironment } from './environment-picker.tsx';
import { ScreenReaderButton, ThemeButton } from './rail-tools.tsx';
import { type Environment, type Session, signOut } from './session/api.ts';
import type { Ending } from './session/end-page.tsx';
import { ShortcutsDialog } from './shortcuts-dialog.tsx';
import { Icon, type IconName } from './ui/icons.tsx';
import { FilesView } from './views/files/files-view.tsx';
import { MachineView } from './views/machine/machine-view.tsx';
import { isTyping, ProcessesView } from './views/processes/processes-view.tsx';
import { RecordingsView } from './views/recordings/recordings-view.tsx';
import { ProcessView } from './views/terminal/process-view.tsx';

const VIEWS: readonly {
  readonly view: View;
  readonly label: string;
  readonly icon: IconName;
  readonly key: string;
}[] = [
  { view: 'processes', label: 'Processes', icon: 'processes', key: '1' },
  { view: 'files', label: 'Files', icon: 'files', key: '2' },
  { view: 'recordings', label: 'Recordings', icon: 'recordings', key: '3' },
  { view: 'machine', label: 'Machine', icon: 'machine', key: '4' },
];

interface ShellProps {
  readonly session: Session;
  readonly onEnd: (ending: Ending) => void;
}

/** Shows the environment of the address. */
export function Shell({ session, onEnd }: ShellProps): JSX.Element {
  const { environment: wanted } = useStore(route);
  const { environments } = session;
  const environment = environments.find((each) => (wanted === null ? each.default : each.name === wanted));
  if (environment === undefined) return <UnknownEnvironment session={session} name={wanted ?? ''} />;
  return <EnvironmentShell session={session} environment={environment} onEnd={onEnd} />;
}

/** The frame of all views: navigation, environment, state of the connection. */
function EnvironmentShell({
  session,
  environment,
  onEnd,
}: ShellProps & { environment: Environment }): JSX.Element {
  const place = useStore(route);
  const [helps, setHelps] = useState(false);
  const { name, label } = environment;
  const workspace = useMemo(() => new Workspace(name, session, createDisplay), [name, session]);
  useEffect(() => () => workspace.close(), [workspace]);
  const status = useStore(workspace.connection.status);
  const client = useStore(workspace.connection.client);
  /** The workspace whose first connection has failed. */
  const [failed, setFailed] = useState<Workspace | null>(null);
  // Nearly all servers can record. A link that appeared later would move those after it.
  const records = client === null || client.capabilities.processRecording === true;

  useEffect(() => {
    // The address may have changed since, and its event may still be on the way.
    const current = parseRoute(location.hash);
    if (current.environment !== null) return;
    const isFirst = current.view === 'processes' && current.item === null;
    const view = isFirst && !workspace.maySeeProcesses ? 'files' : current.view;
    go({ ...current, environment: name, view }, { replace: true });
  }, [place, name]);
  useEffect(() => {
    if (status.kind === 'offline') setFailed(workspace);
    if (status.kind === 'over') onEnd({ code: status.code, message: status.message });
  }, [status]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === '?') setHelps(true);
      const target = VIEWS.find(({ key }) => key === event.key);
      if (target !== undefined && (target.view !== 'recordings' || records)) go({ view: target.view });
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, [records]);

  const leave = async () => {
    workspace.close();
    let message = 'You have signed out in this browser.';
    try {
      await signOut();
    } catch (error) {
      message = `The server did not answer, so your session ends later by itself: ${(error as Error).message}`;
    }
    onEnd({ code: 'signedOut', message });
  };

  const open = place.view === 'processes' && place.item !== null ? workspace.open(place.item) : null;
  useTitle(place.view, open?.ref ?? null, label);
  const showsViews = failed !== workspace || workspace.connection.hasConnected;
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <aside class="rail">
        <div class="brand">
          <span class="brand-mark" aria-hidden="true">
            <Icon name="terminal" size={16} />
          </span>
          <span class="brand-name">exec-server</span>
          {session.readOnly && (
            <span class="chip" title="This link can watch, but not change anything.">
              View only
            </span>
          )}
        </div>
        <EnvironmentPicker session={session} current={environment} />
        <nav class="nav" aria-label="Views">
          {VIEWS.filter(({ view }) => view !== 'recordings' || records).map(({ view, label, icon, key }) => (
            <a
              key={view}
              href={hrefOf({ environment: name, view, item: null })}
              aria-current={place.view === view ? 'page' : undefined}
              aria-keyshortcuts={key}
            >
              <Icon name={icon} />
              <span>{label}</span>
            </a>
          ))}
        </nav>
        <div class="rail-foot">
          <ConnectionPill status={status} />
          <div class="rail-tools">
            <ThemeButton />
            <ScreenReaderButton />
            <button
              type="button"
              class="icon-button"
              aria-label="Keyboard shortcuts"
              title="Keyboard shortcuts (?)"
              onClick={() => setHelps(true)}
            >
              <Icon name="keyboard" />
            </button>
            <button
              type="button"
              class="icon-button"
              aria-label="Sign out"
              title="Sign out"
              onClick={() => leaveFor(() => void leave())}
            >
              <Icon name="signOut" />
            </button>
          </div>
        </div>
      </aside>
      <main id="main" tabIndex={-1} class={status.kind === 'online' ? '' : 'stale'}>
        <ConnectionBanner connection={workspace.connection} />
        {workspace.mayWriteFiles && (
          <KeptDrafts
            environments={session.environments.map(({ name }) => name)}
            below={session.scopes.below}
          />
        )}
        {!showsViews && <Unreachable connection={workspace.connection} label={label} />}
        {showsViews && (
          <>
            {place.view === 'processes' && open === null && <ProcessesView workspace={workspace} />}
            {open !== null && <ProcessView key={open.ref} workspace={workspace} session={open} />}
            {place.view === 'files' && <FilesView workspace={workspace} path={place.item} />}
            {place.view === 'recordings' && <RecordingsView workspace={workspace} item={place.item} />}
            {place.view === 'machine' && <MachineView workspace={workspace} />}
          </>
        )}
      </main>
      {helps && <ShortcutsDialog onClose={() => setHelps(false)} />}
    </div>
  );
}

function useTitle(view: View, ref: string | null, label: string): void {
  useEffect(() => {
    const name = ref ?? VIEWS.find((each) => each.view === view)!.label;
    document.title = `${name} · ${label} · exec-server`;
  }, [view, ref, label]);
}
