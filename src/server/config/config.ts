import { LISTENER_SETTINGS } from './listener-settings.ts';
import { PROGRAM_SETTINGS } from './program-settings.ts';
import { SESSION_SETTINGS } from './session-settings.ts';
import type { InputOf, Setting, ValueOf } from './setting.ts';

/**
 * Every setting of a server. The configuration type, its defaults, flags, environment variables, TOML keys, `exec-server config`,
 * help and docs/cli.md all derive from this table.
 */
const SETTINGS = { ...LISTENER_SETTINGS, ...SESSION_SETTINGS, ...PROGRAM_SETTINGS };

/** Every limit and default of a server. One frozen object of this type configures everything below the listener. */
export type ExecServerConfig = { readonly [Key in ConfigKey]: ValueOf<(typeof SETTINGS)[Key]> };

/**
 * Settings that a program passes to the library. Those left out, or undefined, have their defaults. A duration is a number of
 * milliseconds or text such as `5m`, a size is a number of bytes or text such as `4MiB`.
 */
export type ServerSettings = {
  readonly [Key in ConfigKey]?: InputOf<(typeof SETTINGS)[Key]> | undefined;
};

/** A key of ExecServerConfig. */
export type ConfigKey = keyof typeof SETTINGS;

/** What a server does when nothing is configured. */
export const DEFAULT_CONFIG: ExecServerConfig = Object.freeze(
  Object.fromEntries(Object.entries(SETTINGS).map(([key, setting]) => [key, setting.default])),
) as unknown as ExecServerConfig;

/** The listen URL when none is configured. */
export const DEFAULT_LISTEN_URL = DEFAULT_CONFIG.listen;

/** A setting with its names: TOML key, flag (with its dashes) and environment variable. */
export type ConfigOption = Setting & {
  readonly key: ConfigKey;
  readonly flag: string;
  readonly env: string;
};

/** Every setting in table order. */
export const CONFIG_OPTIONS: readonly ConfigOption[] = Object.entries(SETTINGS).map(([key, setting]) => ({
  ...setting,
  key: key as ConfigKey,
  flag: `--${words(key.replace(/Ms$/, '')).join('-')}`,
  env: `EXEC_SERVER_${words(key).join('_').toUpperCase()}`,
}));

function words(camelCase: string): string[] {
  return camelCase.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
}
