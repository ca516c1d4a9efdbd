import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ExecServerClient } from '../../../../src/client/browser.ts';
import { describeError, formatBytes } from '../../base/format.ts';
import { dark } from '../../base/preferences.ts';
import { ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { MONOSPACE, terminalColours } from '../terminal/terminal-theme.ts';
import { MAX_PLAYED_BYTES, readRecording } from './recordings.ts';

const PHONE = matchMedia('(max-width: 700px)');
/** Longer pauses are shortened to this. */
const IDLE_LIMIT_SECONDS = 3;

/** Gives the keyboard to the player, which only the mouse could focus. */
function takeKeys(parent: HTMLElement): void {
  const element = parent.querySelector<HTMLElement>('.ap-wrapper');
  if (element === null) return;
  element.tabIndex = 0;
  element.role = 'group';
  element.ariaLabel = 'Player';
  element.focus({ preventScroll: true });
}

interface Player {
  getCurrentTime(): number | Promise<number>;
  dispose(): void;
}

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
  // A layout effect, because the cleanup of other effects runs later than the removal of the frame.
  useLayoutEffect(() => {
    let player: Player | null = null;
    let closed = false;
    let show = (_startAt: number): void => {};
    const open = async () => {
      const [{ create }, recording] = await Promise.all([
        import('./player.ts'),
        readRecording(client.recordings.read(recordingId)),
      ]);
      if (closed) return;
      setCut(recording.isCut);
      show = (startAt) => {
        for (const [name, colour] of terminalColours(dark.value)) {
          frame.current!.style.setProperty(`--player-${name}`, colour);
        }
        player = create({ data: recording.text }, frame.current!, {
          autoPlay: true,
          controls: true,
          // A terminal is wider than a phone, so its height is no limit.
          fit: PHONE.matches ? 'width' : 'both',
          idleTimeLimit: IDLE_LIMIT_SECONDS,
          startAt,
          terminalFontFamily: MONOSPACE,
          theme: 'console',
        });
        takeKeys(frame.current!);
      };
      show(0);
      setReady(true);
    };
    open().catch((failure) => setError(describeError(failure)));
    // The player reads its colours and its `fit` only when it is created.
    const showAgain = async () => {
      const time = await player?.getCurrentTime();
      if (closed || time === undefined) return;
      player!.dispose();
      show(time);
    };
    const stop = dark.subscribe(showAgain);
    PHONE.addEventListener('change', showAgain);
    return () => {
      closed = true;
      stop();
      PHONE.removeEventListener('change', showAgain);
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
        Space plays and pauses, the arrow keys jump 5 seconds, [ and ] to the markers. ? lists all keys.
      </p>
    </>
  );
}
