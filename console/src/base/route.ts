import { Store } from './store.ts';

export type View = 'processes' | 'files' | 'recordings' | 'machine';

/** A place in the console: `#/ENVIRONMENT/VIEW/ITEM`. */
export interface Route {
  /** Null: the default environment. */
  readonly environment: string | null;
  readonly view: View;
  /** The reference of a process, the path of a file, the id of a recording. */
  readonly item: string | null;
}

const VIEWS: readonly View[] = ['processes', 'files', 'recordings', 'machine'];

export const route = new Store<Route>(parseRoute(location.hash));

addEventListener('hashchange', () => {
  const target = parseRoute(location.hash);
  if (guard === null || hrefOf(target) === hrefOf(route.value)) {
    route.set(target);
    return;
  }
  // The page stays where it is until the user has answered.
  history.pushState(null, '', hrefOf(route.value));
  guard(() => go(target));
});
addEventListener(
  'click',
  (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const href = link?.getAttribute('href') ?? '';
    if (guard === null || !href.startsWith('#/') || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(parseRoute(href));
  },
  { capture: true },
);

let guard: ((leave: () => void) => void) | null = null;

/** Calls `ask` instead of leaving the present place, with the function that leaves it. Returns a function that ends this. */
export function guardLeaving(ask: (leave: () => void) => void): () => void {
  guard = ask;
  return () => {
    if (guard === ask) guard = null;
  };
}

/** Leaves without a question: the user has answered it. */
export function leaveUnguarded(leave: () => void): void {
  guard = null;
  leave();
}

/** Does what ends the present view, after a question if that view has one. */
export function leaveFor(action: () => void): void {
  if (guard === null) action();
  else guard(action);
}

export function parseRoute(hash: string): Route {
  // Other fragments are not addresses: a link that signs in has a code.
  if (!hash.startsWith('#/')) return { environment: null, view: 'processes', item: null };
  const [environment, view, ...rest] = hash.slice(2).split('/').map(decode);
  const item = rest.join('/');
  return {
    environment: environment || null,
    view: VIEWS.find((known) => known === view) ?? 'processes',
    item: item === '' ? null : item,
  };
}

/** The link to a route. Slashes of an item stay readable. */
export function hrefOf({ environment, view, item }: Route): string {
  const parts = [environment ?? '', view, ...(item === null ? [] : item.split('/'))];
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

/** Goes to another place. With `replace` the present one leaves the history. */
export function go(target: Partial<Route>, { replace = false } = {}): void {
  const next = { ...route.value, item: null, ...target };
  const href = hrefOf(next);
  if (href === location.hash) return;
  if (guard !== null && !replace) {
    guard(() => go(target));
    return;
  }
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  route.set(next);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
