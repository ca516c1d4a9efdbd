import type { ITheme } from '@xterm/xterm';

const DARK: ITheme = {
  background: '#14161b',
  foreground: '#d9dce3',
  cursor: '#aeb8ff',
  cursorAccent: '#14161b',
  selectionBackground: '#3a4480',
  black: '#23262e',
  red: '#f2777a',
  green: '#7fc98b',
  yellow: '#e2b86b',
  blue: '#82aaff',
  magenta: '#c99af0',
  cyan: '#6fc7d1',
  white: '#c6cad3',
  brightBlack: '#727885',
  brightRed: '#ff9597',
  brightGreen: '#9bdfa6',
  brightYellow: '#f2cf8d',
  brightBlue: '#a5c2ff',
  brightMagenta: '#dbb6f7',
  brightCyan: '#92dbe3',
  brightWhite: '#f3f4f7',
};

const LIGHT: ITheme = {
  background: '#ffffff',
  foreground: '#23262d',
  cursor: '#4453c9',
  cursorAccent: '#ffffff',
  selectionBackground: '#cdd4ff',
  black: '#23262d',
  red: '#b3261e',
  green: '#1d7a35',
  yellow: '#8a5a00',
  blue: '#2a56c6',
  magenta: '#8a3ab0',
  cyan: '#10707c',
  white: '#6b717d',
  brightBlack: '#737985',
  brightRed: '#c8372d',
  brightGreen: '#238a3f',
  brightYellow: '#9a6700',
  brightBlue: '#3867dd',
  brightMagenta: '#9d4bc4',
  brightCyan: '#17808d',
  brightWhite: '#3a3f49',
};

const COLOUR_NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;
const BRIGHT_NAMES = [
  'brightBlack',
  'brightRed',
  'brightGreen',
  'brightYellow',
  'brightBlue',
  'brightMagenta',
  'brightCyan',
  'brightWhite',
] as const;

/** The colours by their names in the style sheet: foreground, background, and the numbers 0 to 15. */
export function terminalColours(isDark: boolean): readonly (readonly [name: string, colour: string])[] {
  const theme = terminalTheme(isDark);
  const numbered = [...COLOUR_NAMES, ...BRIGHT_NAMES].map(
    (name, index) => [`${index}`, theme[name]!] as const,
  );
  return [['foreground', theme.foreground!], ['background', theme.background!], ...numbered];
}

export function terminalTheme(dark: boolean): ITheme {
  return dark ? DARK : LIGHT;
}

/** As in the style sheet. The terminal measures its font itself, so it needs the names. */
export const MONOSPACE =
  'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';
