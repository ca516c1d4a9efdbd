import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { printable } from '../../base/format.ts';
import { preferences, setPreference } from '../../base/preferences.ts';
import { useStore } from '../../base/store.ts';
import type { ProcessSession } from '../../connection/process-session.ts';
import { copyText } from '../../ui/clipboard.ts';
import { ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { toast } from '../../ui/toasts.tsx';
import { KeyBar } from './key-bar.tsx';
import { openLink } from './open-link.ts';
import { SearchBar } from './search-bar.tsx';
import type { TerminalDisplay } from './terminal-display.ts';

/** A terminal with its tools. */
export function TerminalView({
  session,
  display,
}: {
  session: ProcessSession;
  display: TerminalDisplay;
}): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const [searching, setSearching] = useState(false);
  const { phase, role } = useStore(session.state);
  const title = useStore(display.title);
  const hovered = useStore(display.hovered);
  const isHinting = useHint(display);

  const copy = async () => {
    const text = display.terminal.getSelection();
    if (text === '')
      toast('Nothing is selected. Select text with the mouse, or all of it with the button beside.');
    else
      toast(
        (await copyText(text))
          ? `${text.length.toLocaleString()} characters copied`
          : 'The browser refused to copy.',
      );
  };

  useEffect(() => {
    const unmount = display.mount(frame.current!);
    display.keyHandler = (event) => {
      if (event.type !== 'keydown') return true;
      // A viewer's keys reach no program. Tab leaves the terminal.
      if (event.key === 'Tab' && session.state.value.role === 'viewer') return false;
      const isSearch = event.ctrlKey && event.shiftKey && event.code === 'KeyF';
      const isCopy = event.ctrlKey && event.shiftKey && event.code === 'KeyC';
      const isLeave = event.ctrlKey && event.key === 'F6';
      if (isSearch) setSearching(true);
      if (isCopy) void copy();
      if (isLeave) leave.current?.focus();
      if (isSearch || isCopy || isLeave) event.preventDefault();
      return !(isSearch || isCopy || isLeave);
    };
    if (matchMedia('(pointer: fine)').matches) display.focus();
    // The same key where the terminal does not have the focus.
    const search = (event: KeyboardEvent) => {
      if (!event.ctrlKey || !event.shiftKey || event.code !== 'KeyF') return;
      event.preventDefault();
      setSearching(true);
    };
    addEventListener('keydown', search);
    return () => {
      removeEventListener('keydown', search);
      unmount();
    };
  }, [display]);

  return (
    <div class="terminal-pane">
      <div class="terminal-bar">
        <span class="terminal-title ellipsis" title={title}>
          {title}
        </span>
        <span class="spring" />
        <button
          ref={leave}
          type="button"
          class="icon-button small"
          aria-label="Search in the terminal"
          title="Search (Ctrl+Shift+F)"
          onClick={() => setSearching(!searching)}
        >
          <Icon name="search" size={16} />
        </button>
        <button
          type="button"
          class="icon-button small"
          aria-label="Copy the selection"
          title="Copy the selection (Ctrl+Shift+C)"
          onClick={() => void copy()}
        >
          <Icon name="copy" size={16} />
        </button>
        <button type="button" class="text-button small" onClick={() => display.terminal.selectAll()}>
          Select all
        </button>
        <FontSize />
      </div>
      {searching && (
        <SearchBar
          display={display}
          onClose={() => {
            setSearching(false);
            display.focus();
          }}
        />
      )}
      <Requests display={display} />
      <div
        ref={frame}
        class={role === 'driver' ? 'terminal-frame' : 'terminal-frame viewer'}
        data-phase={phase}
      />
      {hovered !== null && <div class="link-target">{hovered}</div>}
      {isHinting && role === 'viewer' && (
        <div class="watch-hint" role="status">
          {session.mayDrive ? 'Watching: press Take over to type.' : 'This link can watch, but not type.'}
        </div>
      )}
      {role === 'driver' && phase === 'live' && <KeyBar session={session} display={display} />}
      <p class="offscreen">Press Ctrl+F6 to leave the terminal with the keyboard.</p>
    </div>
  );
}

const HINT_MS = 4000;

/** Whether a key was typed lately that no program gets. */
function useHint(display: TerminalDisplay): boolean {
  const count = useStore(display.ignoredKeys);
  const [seen, setSeen] = useState(count);
  useEffect(() => {
    if (count === seen) return;
    const timer = setTimeout(() => setSeen(count), HINT_MS);
    return () => clearTimeout(timer);
  }, [count, seen]);
  return count !== seen;
}

/** What the program asks for and only the user may grant. */
function Requests({ display }: { display: TerminalDisplay }): JSX.Element {
  const clipboard = useStore(display.clipboard);
  const link = useStore(display.link);
  const problem = useStore(display.problem);
  return (
    <div class="notices">
      {problem !== null && <ErrorNotice text={problem} />}
      {clipboard !== null && (
        <div class="notice" role="status">
          <Icon name="copy" />
          <span>
            The program wants to copy {clipboard.length.toLocaleString()} characters to your clipboard.
          </span>
          <button
            type="button"
            class="button small"
            onClick={() => {
              void copyText(clipboard);
              display.clipboard.set(null);
            }}
          >
            Copy
          </button>
          <button type="button" class="text-button small" onClick={() => display.clipboard.set(null)}>
            Ignore
          </button>
        </div>
      )}
      {link !== null && (
        <div class="notice" role="status">
          <Icon name="link" />
          <span>
            This link leads to <code class="break">{printable(link)}</code>
          </span>
          <button
            type="button"
            class="button small"
            onClick={() => {
              openLink(link);
              display.link.set(null);
            }}
          >
            Open
          </button>
          <button type="button" class="text-button small" onClick={() => display.link.set(null)}>
            Cancel
          </button>
        </div>
      )}
    </div>
  );
}

function FontSize(): JSX.Element {
  const { fontSize } = useStore(preferences);
  return (
    <span class="font-size">
      <button
        type="button"
        class="icon-button small"
        aria-label="A−, smaller letters"
        title="Smaller letters"
        disabled={fontSize <= 9}
        onClick={() => setPreference('fontSize', fontSize - 1)}
      >
        A−
      </button>
      <button
        type="button"
        class="icon-button small"
        aria-label="A+, larger letters"
        title="Larger letters"
        disabled={fontSize >= 24}
        onClick={() => setPreference('fontSize', fontSize + 1)}
      >
        A+
      </button>
    </span>
  );
}
