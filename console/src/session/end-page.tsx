import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { KeptDrafts } from '../drafts/kept-drafts.tsx';
import { Icon } from '../ui/icons.tsx';
import type { ApiErrorCode } from './api.ts';
import { linkCommand } from './link-command.ts';

/** Why the console is not shown. */
export interface Ending {
  readonly code: ApiErrorCode;
  readonly message: string;
}

const TEXTS: Readonly<Record<ApiErrorCode, { readonly title: string; readonly text: string }>> = {
  signedOut: {
    title: 'You are signed out',
    text: 'Signing out ends no programs. A restart of the server signs out too, and ends them. To sign in, open a new link:',
  },
  noLink: {
    title: 'Sign in with a link',
    text: 'This browser has not signed in to this console. A command prints a link that signs it in:',
  },
  expired: {
    title: 'Your session has expired',
    text: 'Sessions end after some time, so that a forgotten tab does not stay open. Programs keep running. To sign in again, open a new link:',
  },
  kicked: {
    title: 'Your session was ended',
    text: 'Another sign-in took its place, or its token was revoked. Programs keep running. To sign in again, open a new link:',
  },
  badCode: {
    title: 'This link does not work any more',
    text: 'A link works once, and only for a minute. Open a new one:',
  },
  offline: {
    title: 'The server does not answer',
    text: 'It has stopped, or the network is down. This page tries again by itself.',
  },
  busy: { title: 'The server is busy', text: 'A limit is reached. This page tries again by itself.' },
  unreachable: { title: 'The environment cannot be reached', text: 'This page tries again by itself.' },
  notFound: { title: 'The console cannot be shown', text: 'The server does not know this address.' },
  failed: { title: 'The console cannot be shown', text: 'The server answered with an error.' },
};

const FIRST_DELAY_MS = 1000;
const MAX_DELAY_MS = 15_000;
let delayMs = FIRST_DELAY_MS;

/** Says what happened and what to do. What may pass by itself is tried again, at growing intervals. */
export function EndPage({ ending, onRetry }: { ending: Ending; onRetry: () => void }): JSX.Element {
  const { title, text } = TEXTS[ending.code];
  const passes = ending.code === 'offline' || ending.code === 'busy' || ending.code === 'unreachable';
  const needsLink = ending.code !== 'failed' && ending.code !== 'notFound' && !passes;
  const seconds = useRetry(passes, onRetry);
  return (
    <main class="end" data-ending={ending.code}>
      <div class="end-card">
        <span class="brand-mark" aria-hidden="true">
          <Icon name="terminal" size={20} />
        </span>
        <h1>{title}</h1>
        <p>{text}</p>
        {needsLink && (
          <pre class="command">
            <code>{linkCommand()}</code>
          </pre>
        )}
        {ending.code !== 'noLink' && <p class="dim">{ending.message}</p>}
        <KeptDrafts environments={[]} />
        {!needsLink && (
          <button type="button" class="button primary" onClick={onRetry}>
            {seconds === null ? 'Try again' : `Try again (${seconds} s)`}
          </button>
        )}
      </div>
    </main>
  );
}

/** Calls back after a delay that doubles. Returns the remaining seconds. */
function useRetry(passes: boolean, onRetry: () => void): number | null {
  const [seconds, setSeconds] = useState<number | null>(null);
  useEffect(() => {
    if (!passes) {
      delayMs = FIRST_DELAY_MS;
      return;
    }
    const at = Date.now() + delayMs;
    delayMs = Math.min(MAX_DELAY_MS, delayMs * 2);
    const timer = setInterval(() => {
      if (Date.now() >= at) onRetry();
      else setSeconds(Math.ceil((at - Date.now()) / 1000));
    }, 250);
    return () => clearInterval(timer);
  }, [passes]);
  return seconds;
}
