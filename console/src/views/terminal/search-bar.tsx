import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../../ui/icons.tsx';
import type { TerminalDisplay } from './terminal-display.ts';

const DECORATIONS = {
  matchBackground: '#b58900',
  activeMatchBackground: '#e0872b',
  matchOverviewRuler: '#b58900',
  activeMatchColorOverviewRuler: '#e0872b',
};

/** Finds text in the terminal and its history. */
export function SearchBar({
  display,
  onClose,
}: {
  display: TerminalDisplay;
  onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState('');
  const [result, setResult] = useState('');
  const field = useRef<HTMLInputElement>(null);

  const find = async (forward: boolean, wanted: string, incremental: boolean) => {
    const search = await display.search();
    if (wanted === '') {
      search.clearDecorations();
      setResult('');
      return;
    }
    const options = { decorations: DECORATIONS, incremental };
    const found = forward
      ? search.findNext(wanted, options)
      : search.findPrevious(wanted, { decorations: DECORATIONS });
    if (!found) setResult('No match');
  };

  // Before the first key: a search reports its result only once.
  useLayoutEffect(() => {
    field.current?.focus();
    let stop: { dispose(): void } | null = null;
    let closed = false;
    void display.search().then((search) => {
      if (closed) return;
      stop = search.onDidChangeResults(({ resultIndex, resultCount }) =>
        setResult(resultCount === 0 ? 'No match' : `${resultIndex + 1} of ${resultCount}`),
      );
    });
    return () => {
      closed = true;
      stop?.dispose();
      void display.search().then((search) => search.clearDecorations());
    };
  }, [display]);

  return (
    <form
      class="search-bar"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        void find(true, text, false);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') onClose();
        if (event.key === 'Enter' && event.shiftKey) {
          event.preventDefault();
          void find(false, text, false);
        }
      }}
    >
      <Icon name="search" size={16} />
      <input
        ref={field}
        aria-label="Text to find"
        placeholder="Find in the terminal"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          void find(true, event.currentTarget.value, true);
        }}
      />
      <span class="dim" role="status">
        {result}
      </span>
      <button
        type="button"
        class="text-button small"
        title="Shift+Enter"
        onClick={() => void find(false, text, false)}
      >
        Previous
      </button>
      <button type="submit" class="text-button small" title="Enter">
        Next
      </button>
      <button type="button" class="icon-button small" aria-label="Close the search" onClick={onClose}>
        <Icon name="close" size={15} />
      </button>
    </form>
  );
}
