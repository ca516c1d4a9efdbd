import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ExecServerClient } from '../../../../src/client/browser.ts';
import { describeError, formatBytes } from '../../base/format.ts';
import { ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { MONOSPACE } from '../terminal/terminal-theme.ts';
import { MAX_PLAYED_BYTES, readRecording } from './recordings.ts';

/** Longer pauses are shortened to this. */
const IDLE_LIMIT_SECONDS = 3;

/** Plays a recording. The player is loaded on first use. */
export function PlayerView({
  client,
  recordingId,
}: {
  client: ExecServerClient;
  recordingId: string;
}): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<string | null>(null);
  const [isReady, setReady] = useState(false);
  const [isCut, setCut] = useState(false);
  useEffect(() => {
    let player: { dispose(): void } | null = null;
    let closed = false;
    const open = async () => {
      const [{ create }, recording] = await Promise.all([
        import('./player.ts'),
        readRecording(client.recordings.read(recordingId)),
      ]);
      if (closed) return;
      setCut(recording.isCut);
      player = create({ data: recording.text }, frame.current!, {
        autoPlay: true,
        controls: true,
        fit: 'both',
        idleTimeLimit: IDLE_LIMIT_SECONDS,
        terminalFontFamily: MONOSPACE,
        theme: 'asciinema',
      });
      setReady(true);
    };
    open().catch((failure) => setError(describeError(failure)));
    return () => {
      closed = true;
      player?.dispose();
    };
  }, [client, recordingId]);
  return (
    <>
      {error !== null && <ErrorNotice text={`The recording cannot be played. ${error}`} />}
      {isCut && (
        <div class="notice" role="status">
          <Icon name="warning" />
          <span>Only the first {formatBytes(MAX_PLAYED_BYTES)} are played. The download is complete.</span>
        </div>
      )}
      <div ref={frame} class="player" aria-busy={!isReady && error === null} />
      <p class="dim hint">
        Space plays and pauses, the arrow keys jump 5 seconds, &lt; and &gt; change the speed.
      </p>
    </>
  );
}
