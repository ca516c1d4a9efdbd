/** Headings under which help and documentation list the settings, in this order. */
export const SETTING_GROUPS = [
  'Connections',
  'Access',
  'Messages',
  'Sessions and processes',
  'Output',
  'Recordings',
  'Protocol',
  'Sandbox',
  'Program limits',
  'Session limits',
  'HTTP requests',
  'TCP streams',
  'Programs of the server',
  'Logs, audit and metrics',
] as const;

/** One row of the settings table: the default, the values it takes and what it does. */
export type Setting = Described & (NumberSetting | BooleanSetting | EnumSetting | TextSetting);

type Described = { readonly group: (typeof SETTING_GROUPS)[number]; readonly description: string };
type NumberSetting = {
  readonly type: 'integer' | 'duration' | 'bytes';
  readonly default: number;
  readonly min: number;
  readonly max: number;
  /** Whether `none` is a value too. It means no limit and is read as `Infinity`, which is a value then too. */
  readonly none?: boolean;
};
type BooleanSetting = { readonly type: 'boolean'; readonly default: boolean };
type EnumSetting = { readonly type: 'enum'; readonly default: string; readonly values: readonly string[] };
type TextSetting = {
  readonly type: 'string';
  readonly default: string;
  readonly placeholder: string;
  readonly allowed: string;
};

/** The type of a setting's value. */
export type ValueOf<S extends Setting> = S extends { readonly values: readonly (infer Choice)[] }
  ? Choice
  : S extends { readonly type: 'boolean' }
    ? boolean
    : S extends { readonly type: 'string' }
      ? string
      : number;

/** What a program may pass to the library for a setting: its value, or the text of a command line with its unit. */
export type InputOf<S extends Setting> =
  | ValueOf<S>
  | (S extends { readonly type: 'duration' } ? `${bigint}${'ms' | 's' | 'm' | 'h'}` : never)
  | (S extends { readonly type: 'bytes' } ? `${bigint}${'KiB' | 'MiB' | 'GiB'}` : never)
  | (S extends { readonly none: true } ? 'none' : never);

/** A text setting that names a file. */
export const FILE = {
  type: 'string',
  default: '',
  placeholder: 'FILE',
  allowed: 'the path of a file',
} as const;

/** Units in which the bounds of settings are written. */
export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;
export const TIB = 1024 * GIB;
const SECOND = 1_000;
export const HOUR = 3_600 * SECOND;

/** Longer than any session should last, and well below the 2^31 ms that a Node timer can hold. */
export const WEEK = 168 * HOUR;

/** For counts without a natural ceiling. */
export const MAX_COUNT = 2 ** 31 - 1;
