import { escapeUnprintable } from '../base/unprintable.ts';
import { MAX_LOGGED_CHARS } from './limits.ts';
import { redactText } from './redact.ts';

/** Severity of a record. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Values that give a record its context. They must not contain secrets, arguments, environments or output. */
type LogFields = Readonly<Record<string, string | number | boolean | null>>;

/** Writes records of at least a certain level, one line each. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const SEVERITY: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };

/**
 * Creates a logger that passes complete JSON lines to `write`. Escapes keep a hostile value from forging a line or controlling a
 * terminal. Text that looks like a secret is replaced, and long texts are truncated.
 */
export function createLogger(level: LogLevel, write: (line: string) => void): Logger {
  const at =
    (recordLevel: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (SEVERITY[recordLevel] < SEVERITY[level]) return;
      const record = { time: new Date().toISOString(), level: recordLevel, message, ...fields };
      write(`${safeJson(record, MAX_LOGGED_CHARS)}\n`);
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** One line of JSON without secrets, without texts longer than `maxChars`, and without characters that act on a terminal. */
export function safeJson(record: unknown, maxChars: number): string {
  const json = JSON.stringify(record, (_key, value) =>
    typeof value === 'string' ? redactText(value, maxChars) : value,
  );
  // JSON escapes only some of the characters that act on a terminal.
  return escapeUnprintable(json);
}
