import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ClientError, type ExecServerClient, type RecordingInfo } from '../../../../src/client/browser.ts';
import { describeError, formatBytes, formatTime, printable } from '../../base/format.ts';
import { hrefOf, route } from '../../base/route.ts';
import { useStore } from '../../base/store.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { download } from '../files/transfers.ts';
import { EveryoneCheck } from '../processes/processes-view.tsx';
import { PlayerView } from './player-view.tsx';
import { listRecordings } from './recordings.ts';

const INTERVAL_MS = 3000;

/** The recordings of the environment, and a player. */
export function RecordingsView({
  workspace,
  item,
}: {
  workspace: Workspace;
  item: string | null;
}): JSX.Element {
  const client = useStore(workspace.connection.client);
  const [recordings, setRecordings] = useState<readonly RecordingInfo[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [isRefused, setRefused] = useState(!workspace.maySeeProcesses);
  const everyone = useStore(workspace.list.everyone);
  useEffect(() => {
    if (client === null || isRefused) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let current = true;
    const load = async () => {
      try {
        const found = document.hidden ? null : await listRecordings(client, everyone);
        if (current && found !== null) setRecordings(found);
        if (current) setError(null);
      } catch (failure) {
        const isDenied = failure instanceof ClientError && failure.kind === 'permissionDenied';
        // The server records each refusal, so the page does not ask again.
        if (current && isDenied && everyone) {
          workspace.list.everyone.set(false);
          return;
        }
        if (current && client.state === 'connected') setError(describeError(failure));
        if (current && isDenied) {
          setRefused(true);
          return;
        }
      }
      if (current && item === null) timer = setTimeout(() => void load(), INTERVAL_MS);
    };
    void load();
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [client, item, everyone]);
  if (isRefused) {
    return (
      <section class="view" aria-label="Recordings">
        <Empty icon="recordings" title="No access to recordings">
          <p>This link may not see recordings. Sign in with a token that has the scope exec or observe.</p>
        </Empty>
      </section>
    );
  }
  const owners = new Set(recordings?.map(({ owner }) => owner));
  const selected = recordings?.find(({ recordingId }) => recordingId === item) ?? null;
  return (
    <section class="view" aria-labelledby="view-title">
      <header class="view-head">
        {item !== null && (
          <a
            class="icon-button"
            href={hrefOf({ ...route.value, item: null })}
            aria-label="All recordings"
            title="All recordings"
          >
            <Icon name="back" />
          </a>
        )}
        <h1 id="view-title" class="ellipsis">
          {selected === null ? 'Recordings' : printable(selected.command)}
        </h1>
        {selected !== null && <span class="count">{formatTime(selected.startedAt)}</span>}
        {item === null && workspace.session.scopes.observe && (
          <>
            <span class="spring" />
            <EveryoneCheck everyone={workspace.list.everyone} />
          </>
        )}
      </header>
      {error !== null && <ErrorNotice text={`The recordings cannot be read. ${error}`} />}
      {item !== null && client !== null ? (
        <PlayerView key={item} client={client} recordingId={item} />
      ) : recordings !== null && recordings.length === 0 ? (
        <Empty icon="recordings" title="No recordings yet">
          <p>
            Start a command with the option Record, or with <code>exec-server run --record</code>. The server
            then keeps what its terminal shows.
          </p>
        </Empty>
      ) : (
        <ul class="recordings">
          {recordings?.map((recording) => (
            <Row
              key={recording.recordingId}
              client={client}
              recording={recording}
              showOwner={owners.size > 1}
              onError={setError}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

function Row({
  client,
  recording,
  showOwner,
  onError,
}: {
  client: ExecServerClient | null;
  recording: RecordingInfo;
  showOwner: boolean;
  onError: (text: string) => void;
}): JSX.Element {
  const { recordingId, state, bytes, command, name, owner, startedAt } = recording;
  const [isLoading, setLoading] = useState(false);
  const get = async () => {
    setLoading(true);
    try {
      const file = { name: `${recordingId}.cast`, size: bytes, command: 'exec-server export' };
      await download(client!.recordings.read(recordingId), file, () => {});
    } catch (failure) {
      onError(describeError(failure));
    }
    setLoading(false);
  };
  return (
    <li class="recording">
      <a class="recording-main" href={hrefOf({ ...route.value, item: recordingId })}>
        <span class="play">
          <Icon name="play" size={15} />
        </span>
        <span class="mono ellipsis">{printable(command)}</span>
        {name !== null && <span class="chip">{name}</span>}
        {showOwner && <span class="chip">{printable(owner)}</span>}
      </a>
      <span class={`recording-state is-${state}`}>
        {state === 'recording' ? 'Recording' : state === 'incomplete' ? 'Incomplete' : ''}
      </span>
      <span class="dim number">{formatBytes(bytes)}</span>
      <span class="dim number recording-time">{formatTime(startedAt)}</span>
      <button
        type="button"
        class="icon-button small"
        aria-label={`Download the recording of ${command}`}
        title="Download (asciicast v3)"
        disabled={client === null || isLoading}
        onClick={() => void get()}
      >
        <Icon name="download" size={16} />
      </button>
    </li>
  );
}
