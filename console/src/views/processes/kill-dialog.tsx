import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ProcessInfo } from '../../../../src/client/browser.ts';
import { describeError, formatCommand } from '../../base/format.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorNotice } from '../../ui/empty.tsx';
import { toast } from '../../ui/toasts.tsx';

const GRACE_MS = 5000;
const SIGNALS = ['SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGSTOP', 'SIGCONT', 'SIGQUIT'];

/** Asks how to end a process. */
export function KillDialog({
  workspace,
  process,
  onClose,
}: {
  workspace: Workspace;
  process: ProcessInfo;
  onClose: () => void;
}): JSX.Element {
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [signal, setSignal] = useState('SIGINT');
  const ref = process.ref ?? process.processId;
  const name = process.name ?? ref;

  const act = async (what: string, action: () => Promise<unknown>) => {
    setBusy(true);
    setError(null);
    try {
      await action();
      workspace.list.refresh();
      toast(what);
      onClose();
    } catch (failure) {
      setError(describeError(failure));
      setBusy(false);
    }
  };
  const processes = () => {
    const client = workspace.connection.client.value;
    if (client === null) throw new Error('the server is not connected');
    return client.processes;
  };

  return (
    <Dialog title={`End ${name}?`} onClose={onClose} wide>
      <p class="mono dim ellipsis">{formatCommand(process.argv)}</p>
      <p>The process and everything that it has started end.</p>
      {error !== null && <ErrorNotice text={error} />}
      <div class="dialog-actions">
        <form
          class="signal-form"
          onSubmit={(event) => {
            event.preventDefault();
            void act(`${signal} sent to ${name}`, () => processes().signal(ref, signal));
          }}
        >
          <select
            aria-label="Signal"
            value={signal}
            onChange={(event) => setSignal(event.currentTarget.value)}
          >
            {SIGNALS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
          <button type="submit" class="button" disabled={busy}>
            Send
          </button>
        </form>
        <span class="spring" />
        <button type="button" class="button" autofocus onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class="button danger-quiet"
          disabled={busy}
          title="SIGKILL: it cannot clean up"
          onClick={() => void act(`${name} was killed`, () => processes().terminate(ref, { type: 'force' }))}
        >
          Kill now
        </button>
        <button
          type="button"
          class="button danger"
          disabled={busy}
          title={`SIGTERM, and SIGKILL after ${GRACE_MS / 1000} s`}
          onClick={() =>
            void act(`${name} is ending`, () =>
              processes().terminate(ref, { type: 'graceful', timeoutMs: GRACE_MS }),
            )
          }
        >
          End process
        </button>
      </div>
    </Dialog>
  );
}
