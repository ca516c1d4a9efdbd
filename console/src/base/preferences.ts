import { Store } from './store.ts';

export type Theme = 'system' | 'light' | 'dark';

export interface Preferences {
  readonly theme: Theme;
  readonly screenReader: boolean;
  readonly fontSize: number;
}

const KEY = 'exec-server-console.preferences';
const DEFAULTS: Preferences = { theme: 'system', screenReader: false, fontSize: 13 };

/** What this browser remembers about its user. */
export const preferences = new Store<Preferences>(load());

export function setPreference<K extends keyof Preferences>(name: K, value: Preferences[K]): void {
  preferences.set({ ...preferences.value, [name]: value });
}

/** Whether the page is dark now. */
export const dark = new Store(isDark());

const systemDark = matchMedia('(prefers-color-scheme: dark)');
preferences.subscribe((value) => {
  localStorage.setItem(KEY, JSON.stringify(value));
  apply();
});
systemDark.addEventListener('change', apply);
apply();

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  dark.set(isDark());
}

function isDark(): boolean {
  const { theme } = preferences.value;
  return theme === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark';
}

function load(): Preferences {
  try {
    const saved = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Preferences>;
    const theme = (['system', 'light', 'dark'] as const).find((name) => name === saved.theme);
    const fontSize = Math.min(24, Math.max(9, Number(saved.fontSize) || DEFAULTS.fontSize));
    return { theme: theme ?? DEFAULTS.theme, screenReader: saved.screenReader === true, fontSize };
  } catch {
    return DEFAULTS;
  }
}
