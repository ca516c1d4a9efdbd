import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useStore } from '../../base/store.ts';
import type { ProcessSession } from '../../connection/process-session.ts';
import { copyText } from '../../ui/clipboard.ts';
import { Icon } from '../../ui/icons.tsx';
import { toast } from '../../ui/toasts.tsx';
import { Spacer, useRowWindow } from '../../ui/virtual-rows.tsx';
import type { OutputDisplay, OutputLine } from './output-display.ts';

type Shown = 'all' | 'stdout' | 'stderr';

const ROW_HEIGHT = 20;

/** The output of a process without a terminal. It follows the end until the user scrolls up. */
export function OutputView({
  session,
  display,
}: {
  session: ProcessSession;
  display: OutputDisplay;
}): JSX.Element {
  const revision = useStore(display.revision);
  const { phase, role, info } = useStore(session.state);
  const [shown, setShown] = useState<Shown>('all');
  const [filter, setFilter] = useState('');
  const [follows, setFollows] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  const lines = useMemo(
    () =>
      shown === 'all' && filter === ''
        ? display.lines
        : display.lines.filter((line) => isShown(line, shown, filter)),
    [revision, shown, filter],
  );
  const { first, last } = useRowWindow(scroller, lines.length, ROW_HEIGHT);

  /** Where the page itself has scrolled to. */
  const end = useRef(0);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!follows || element === null) return;
    element.scrollTop = element.scrollHeight;
    end.current = element.scrollTop;
  }, [revision, follows, shown, filter, last]);
  useEffect(() => {
    const element = scroller.current!;
    const scrolled = () => {
      const { scrollHeight, scrollTop, clientHeight } = element;
      if (scrollHeight - scrollTop - clientHeight < 2 * ROW_HEIGHT) setFollows(true);
      // The event comes later than the scrolling, and more output may have arrived. Only a reader scrolls up.
      else if (scrollTop < end.current) setFollows(false);
    };
    element.addEventListener('scroll', scrolled, { passive: true });
    return () => element.removeEventListener('scroll', scrolled);
  }, []);

  const copy = async () => {
    const text = lines.map((line) => line.text).join('\n');
    toast(
      (await copyText(text))
        ? `${lines.length.toLocaleString()} lines copied`
        : 'The browser refused to copy.',
    );
  };

  return (
    <div class="output">
      <div class="terminal-bar">
        <div class="segments small" role="group" aria-label="Which stream to show">
          {(['all', 'stdout', 'stderr'] as const).map((name) => (
            <button key={name} type="button" aria-pressed={shown === name} onClick={() => setShown(name)}>
              {name === 'all' ? 'All' : name}
            </button>
          ))}
        </div>
        <label class="field search small">
          <Icon name="search" size={15} />
          <input
            type="search"
            placeholder="Filter lines"
            aria-label="Filter lines"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
        <span class="spring" />
        {display.dropped > 0 && (
          <span class="dim">{display.dropped.toLocaleString()} earlier lines are not kept</span>
        )}
        <button
          type="button"
          class="icon-button small"
          aria-label="Copy these lines"
          title="Copy these lines"
          onClick={() => void copy()}
        >
          <Icon name="copy" size={16} />
        </button>
      </div>
      <div
        ref={scroller}
        class="lines"
        role="log"
        aria-label="Output"
        aria-live={follows ? 'polite' : 'off'}
        tabIndex={0}
      >
        {lines.length === 0 && (
          <p class="lines-empty">
            {phase === 'ended' ? 'It printed nothing.' : 'It has printed nothing yet.'}
          </p>
        )}
        <Spacer rows={first} rowHeight={ROW_HEIGHT} />
        {lines.slice(first, last).map((line) => (
          <div key={line.number} class={`line ${line.stream}`}>
            <span class="line-stream" aria-hidden={line.stream === 'stdout'}>
              {line.stream === 'stderr' ? 'err' : ''}
            </span>
            <span class="line-text">{line.stream === 'gap' ? `┄ ${line.text} ┄` : line.text}</span>
          </div>
        ))}
        <Spacer rows={lines.length - last} rowHeight={ROW_HEIGHT} />
      </div>
      {!follows && (
        <button type="button" class="follow" onClick={() => setFollows(true)}>
          <Icon name="down" size={15} /> Latest output
        </button>
      )}
      {role === 'driver' && phase === 'live' && info?.state !== 'closed' && <Stdin session={session} />}
    </div>
  );
}

/** A line for stdin. A program that was started without stdin refuses it, and the error says so. */
function Stdin({ session }: { session: ProcessSession }): JSX.Element {
  const [text, setText] = useState('');
  return (
    <form
      class="stdin"
      onSubmit={(event) => {
        event.preventDefault();
        session.write(`${text}\n`);
        setText('');
      }}
    >
      <span class="prompt" aria-hidden="true">
        ›
      </span>
      <input
        class="mono"
        aria-label="A line for stdin"
        placeholder="Send a line to stdin"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="button small">
        Send
      </button>
      <button
        type="button"
        class="text-button small"
        title="The program sees the end of its input"
        onClick={() => session.closeStdin()}
      >
        Close stdin
      </button>
    </form>
  );
}

function isShown(line: OutputLine, shown: Shown, filter: string): boolean {
  if (line.stream === 'gap') return true;
  return (shown === 'all' || line.stream === shown) && line.text.toLowerCase().includes(filter.toLowerCase());
}
