/** Severity of a record, from chatty to grave. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Values that give a record its context. They must not be secrets, arguments, environments or output. */
export type LogFields = Readonly<Record<string, string | number | boolean | null>>;

/** Writes records of at least a level, one line each. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const SEVERITY: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };

/** A logger that hands finished JSON lines to `write`. JSON keeps a hostile value from forging a line. */
export function createLogger(level: LogLevel, write: (line: string) => void): Logger {
  const at =
    (recordLevel: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (SEVERITY[recordLevel] < SEVERITY[level]) return;
      write(
        `${JSON.stringify({ time: new Date().toISOString(), level: recordLevel, message, ...fields })}\n`,
      );
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
