import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { describeError } from './base/format.ts';
import { ApiError, fetchSession, onSignedIn, type Session, signIn } from './session/api.ts';
import { type Ending, EndPage } from './session/end-page.tsx';
import { Shell } from './shell.tsx';
import { Toasts, toast } from './ui/toasts.tsx';

type State =
  | { readonly kind: 'starting' }
  | { readonly kind: 'in'; readonly session: Session }
  | { readonly kind: 'out'; readonly ending: Ending };

const CODE = /^#code=([\w-]+)/;

/** Signs in, and shows the console or why it cannot be shown. */
export function App(): JSX.Element {
  const [state, setState] = useState<State>({ kind: 'starting' });
  const start = async () => {
    setState({ kind: 'starting' });
    setState(await begin());
  };
  useEffect(() => {
    void start();
    // A new link in a tab that is open already.
    const changed = () => {
      if (CODE.test(location.hash)) void start();
    };
    addEventListener('hashchange', changed);
    // The new session may allow less, or more. The view stays as it is.
    const stop = onSignedIn(async () => setState(await begin()));
    return () => {
      removeEventListener('hashchange', changed);
      stop();
    };
  }, []);
  return (
    <>
      {state.kind === 'in' && (
        <Shell session={state.session} onEnd={(ending) => setState({ kind: 'out', ending })} />
      )}
      {state.kind === 'out' && <EndPage ending={state.ending} onRetry={() => void start()} />}
      <Toasts />
    </>
  );
}

async function begin(): Promise<State> {
  const code = CODE.exec(location.hash)?.[1];
  // The code works once. It must not stay in the address or in the history.
  if (code !== undefined) history.replaceState(null, '', location.pathname + location.search);
  try {
    if (code !== undefined) await signIn(code);
    return { kind: 'in', session: await fetchSession() };
  } catch (error) {
    if (error instanceof ApiError && error.code === 'badCode') {
      const session = await fetchSession().catch(() => null);
      if (session !== null) {
        toast('This link does not work any more. You are still signed in.');
        return { kind: 'in', session };
      }
    }
    const ending = error instanceof ApiError ? error.code : 'failed';
    return { kind: 'out', ending: { code: ending, message: describeError(error) } };
  }
}
