import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { dark, preferences, setPreference, type Theme } from './base/preferences.ts';
import { go, hrefOf, parseRoute, route, type View } from './base/route.ts';
import { useStore } from './base/store.ts';
import { ConnectionBanner, ConnectionPill } from './connection/connection-status.tsx';
import { Workspace } from './connection/workspace.ts';
import { createDisplay } from './displays.ts';
import { type Session, signOut } from './session/api.ts';
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

/** The frame of all views: navigation, environment, state of the connection. */
export function Shell({
  session,
  onEnd,
}: {
  session: Session;
  onEnd: (ending: Ending) => void;
}): JSX.Element {
  const place = useStore(route);
  const [helps, setHelps] = useState(false);
  const fallback = session.environments.find((each) => each.default) ?? session.environments[0];
  const environment = session.environments.find(({ name }) => name === place.environment) ?? fallback;
  const name = environment?.name ?? '';
  const workspace = useMemo(() => new Workspace(name, session, createDisplay), [name, session]);
  useEffect(() => () => workspace.close(), [workspace]);
  const status = useStore(workspace.connection.status);
  const client = useStore(workspace.connection.client);
  const records = client?.capabilities.processRecording === true;

  useEffect(() => {
    // The address may have changed since, and its event may still be on the way.
    const current = parseRoute(location.hash);
    if (current.environment !== name) go({ ...current, environment: name }, { replace: true });
  }, [place, name]);
  useEffect(() => {
    if (status.kind === 'over') onEnd({ code: status.code, message: status.message });
  }, [status]);
  useEffect(() => {
    for (const ref of workspace.remembered) workspace.open(ref);
  }, [workspace]);
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
  useTitle(place.view, open?.ref ?? null, environment?.label ?? '');
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
        <EnvironmentPicker session={session} current={name} label={environment?.label ?? name} />
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
              onClick={() => void leave()}
            >
              <Icon name="signOut" />
            </button>
          </div>
        </div>
      </aside>
      <main id="main" tabIndex={-1}>
        <ConnectionBanner connection={workspace.connection} />
        {place.view === 'processes' && open === null && <ProcessesView workspace={workspace} />}
        {open !== null && <ProcessView key={open.ref} workspace={workspace} session={open} />}
        {place.view === 'files' && <FilesView workspace={workspace} path={place.item} />}
        {place.view === 'recordings' && <RecordingsView workspace={workspace} item={place.item} />}
        {place.view === 'machine' && <MachineView workspace={workspace} />}
      </main>
      {helps && <ShortcutsDialog onClose={() => setHelps(false)} />}
    </div>
  );
}

function EnvironmentPicker({
  session,
  current,
  label,
}: {
  session: Session;
  current: string;
  label: string;
}): JSX.Element {
  if (session.environments.length < 2) {
    return (
      <div class="environment" title={label}>
        <Icon name="machine" size={15} />
        <span class="ellipsis">{label}</span>
      </div>
    );
  }
  return (
    <label class="environment select">
      <Icon name="machine" size={15} />
      <select
        aria-label="Environment"
        value={current}
        onChange={(event) => go({ environment: event.currentTarget.value, item: null })}
      >
        {session.environments.map((each) => (
          <option key={each.name} value={each.name}>
            {each.label}
          </option>
        ))}
      </select>
    </label>
  );
}

const NEXT_THEME: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };

function ThemeButton(): JSX.Element {
  const { theme } = useStore(preferences);
  useStore(dark);
  const icon = theme === 'system' ? 'system' : theme === 'light' ? 'sun' : 'moon';
  const label = `Colours: ${theme === 'system' ? 'as the system' : theme}`;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={label}
      title={label}
      onClick={() => setPreference('theme', NEXT_THEME[theme])}
    >
      <Icon name={icon} />
    </button>
  );
}

function ScreenReaderButton(): JSX.Element {
  const { screenReader } = useStore(preferences);
  return (
    <button
      type="button"
      class={screenReader ? 'icon-button on' : 'icon-button'}
      aria-pressed={screenReader}
      aria-label="Screen reader mode of terminals"
      title={`Screen reader mode of terminals: ${screenReader ? 'on' : 'off'}`}
      onClick={() => setPreference('screenReader', !screenReader)}
    >
      <Icon name="accessibility" />
    </button>
  );
}

function useTitle(view: View, ref: string | null, label: string): void {
  useEffect(() => {
    const name = ref ?? VIEWS.find((each) => each.view === view)!.label;
    document.title = `${name} · ${label} · exec-server`;
  }, [view, ref, label]);
}
