import type { JSX } from 'preact';
import { dark, preferences, setPreference, type Theme } from './base/preferences.ts';
import { useStore } from './base/store.ts';
import { Icon } from './ui/icons.tsx';

const NEXT_THEME: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };

/** Chooses the colours of the page. */
export function ThemeButton(): JSX.Element {
  const { theme } = useStore(preferences);
  useStore(dark);
  const icon = theme === 'system' ? 'system' : theme === 'light' ? 'sun' : 'moon';
  const label = `Colours: ${theme === 'system' ? 'as the system' : theme}`;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={label}
      title={label}
      onClick={() => setPreference('theme', NEXT_THEME[theme])}
    >
      <Icon name={icon} />
    </button>
  );
}

/** Turns the screen reader mode of terminals on and off. */
export function ScreenReaderButton(): JSX.Element {
  const { screenReader } = useStore(preferences);
  return (
    <button
      type="button"
      class={screenReader ? 'icon-button on' : 'icon-button'}
      aria-pressed={screenReader}
      aria-label="Screen reader mode of terminals"
      title={`Screen reader mode of terminals: ${screenReader ? 'on' : 'off'}`}
      onClick={() => setPreference('screenReader', !screenReader)}
    >
      <Icon name="accessibility" />
    </button>
  );
}
