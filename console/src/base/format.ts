/** A size for people: `980 B`, `1.2 KB`, `34 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const units = ['KB', 'MB', 'GB', 'TB'];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A duration for people: `4 s`, `12 min`, `3 h`, `2 d`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) {
    const minutes = Math.floor((seconds % 3600) / 60);
    return seconds < 10 * 3600 && minutes > 0
      ? `${Math.floor(seconds / 3600)} h ${minutes} min`
      : `${Math.floor(seconds / 3600)} h`;
  }
  return `${Math.floor(seconds / 86_400)} d`;
}

export function formatTime(date: Date): string {
  const sameDay = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
  if (sameDay) return time;
  return `${date.toLocaleDateString(undefined, { year: 'numeric', month: 'short', day: 'numeric' })}, ${time}`;
}

/** A command as a shell would need it, for display only. */
export function formatCommand(argv: readonly string[]): string {
  // `sh -c SCRIPT` is how command lines are started. The script says more than the shell.
  const script = argv.length === 3 && /(^|\/)(ba|z|da|fi)?sh$/.test(argv[0]!) && /^-l?c$/.test(argv[1]!);
  if (script) return oneLine(argv[2]!);
  return oneLine(
    argv
      .map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", `'\\''`)}'`))
      .join(' '),
  );
}

function oneLine(text: string): string {
  return printable(text.replaceAll(/\s*\n\s*/g, ' ↵ '));
}

/** Joiners, and characters that choose the form of the character before. They are visible only after letters of some scripts and in emoji. */
const JOINING =
  '[\\u034f\\u180b-\\u180f\\u200c\\u200d\\ufe00-\\ufe0e\\u{e0100}-\\u{e01ef}]|\\ufe0f(?!\\u20e3)';
/** Control characters, characters that change the direction of text, and others that cannot be seen. */
const HIDDEN = new RegExp(
  `(?![\\t\\n]|${JOINING}|\\ufe0f)[\\p{Cc}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\ufff9-\\ufffb]|(?<![^\\u0000-\\u024f])(?:${JOINING})`,
  'gu',
);

/** Replaces characters that cannot be seen, or that change the direction of text. Keeps tabs and line breaks. */
export function printable(text: string): string {
  return text.replaceAll(HIDDEN, '\ufffd');
}

/** Like {@link printable}, for a name or a path, in which a tab or a line break is a trick too. */
export function printableName(name: string): string {
  return printable(name.replaceAll(/[\t\n]/g, '\ufffd'));
}

/** What an error says, as a sentence. The numbers of system errors are for programs. It may contain the name of a file. */
export function describeError(error: unknown): string {
  const message = printable(error instanceof Error ? error.message : String(error));
  const text = message.replaceAll(/ \(os error \d+\)/g, '');
  return text === ''
    ? 'Unknown error.'
    : `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}
