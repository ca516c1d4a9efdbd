import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useStore } from '../base/store.ts';
import { isServed, linkCommand } from '../session/link-command.ts';
import { Empty } from '../ui/empty.tsx';
import { Icon } from '../ui/icons.tsx';
import type { ConnectionStatus, EnvironmentConnection } from './environment-connection.ts';

const LABELS: Readonly<Record<ConnectionStatus['kind'], string>> = {
  connecting: 'Connecting',
  online: 'Connected',
  recovering: 'Reconnecting',
  offline: 'Offline',
  over: 'Signed out',
};

/** The state of the connection in one word. */
export function ConnectionPill({ status }: { status: ConnectionStatus }): JSX.Element {
  return (
    <span class={`pill ${status.kind}`} role="status" data-connection={status.kind}>
      <span class="dot" />
      {LABELS[status.kind]}
    </span>
  );
}

/** Short interruptions are not worth a message. */
const SHOWN_AFTER_MS = 700;

/** Says that a line that worked is lost, and when the next attempt is. It lies over the view, so nothing moves. */
export function ConnectionBanner({ connection }: { connection: EnvironmentConnection }): JSX.Element | null {
  const status = useStore(connection.status);
  const isDown = status.kind === 'recovering' || status.kind === 'offline';
  const [isShown, setShown] = useState(false);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (status.kind === 'online') setShown(false);
    if (!isDown) return;
    const show = setTimeout(() => setShown(true), SHOWN_AFTER_MS);
    const tick = setInterval(() => setNow(Date.now()), 500);
    return () => {
      clearTimeout(show);
      clearInterval(tick);
    };
  }, [status.kind]);
  if (!isShown || !connection.hasConnected || status.kind === 'online' || status.kind === 'over') return null;
  const wait = status.kind === 'offline' ? Math.max(0, Math.ceil((status.retryAtMs - now) / 1000)) : 0;
  return (
    <div class="banner" role="alert" data-banner={status.kind}>
      <Icon name="warning" />
      <span class="banner-text">
        {connection.hasEnded ? (
          <>
            <b>{isServed() ? 'The server does not answer.' : 'The console has ended.'}</b>{' '}
            {isServed() ? 'This page tries again by itself. After a restart of the server, run' : 'Run'}{' '}
            <code>{linkCommand()}</code> and open its link.
          </>
        ) : (
          <>
            <b>
              {status.kind === 'offline'
                ? 'The server cannot be reached.'
                : 'The connection is lost. Reconnecting…'}
            </b>{' '}
            {status.kind === 'recovering' && 'Programs keep running.'}
          </>
        )}
        {'why' in status && <span class="banner-why">{status.why}</span>}
      </span>
      {status.kind === 'offline' && (
        <button type="button" class="button small" onClick={() => connection.retry()}>
          {wait > 0 ? `Try now (${wait} s)` : 'Try now'}
        </button>
      )}
    </div>
  );
}

/** Takes the place of the views of an environment that has not answered yet. */
export function Unreachable({
  connection,
  label,
}: {
  connection: EnvironmentConnection;
  label: string;
}): JSX.Element {
  const status = useStore(connection.status);
  const [why, setWhy] = useState('');
  useEffect(() => {
    if ('why' in status) setWhy(status.why);
  }, [status]);
  return (
    <section class="view" aria-label={label} data-unreachable>
      <Empty icon="warning" title={`Cannot reach ${label}`}>
        <p class="break">{why}</p>
        <p>This page tries again by itself.</p>
        <button
          type="button"
          class="button"
          disabled={status.kind !== 'offline'}
          onClick={() => connection.retry()}
        >
          Try now
        </button>
      </Empty>
    </section>
  );
}
