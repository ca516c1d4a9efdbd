import type { ExecServerConfig } from './config.ts';

/** A key of ExecServerConfig. */
export type ConfigKey = keyof ExecServerConfig;

/** Headings under which help and documentation list the options, in their order. */
export const OPTION_GROUPS = [
  'Connections',
  'Access',
  'Messages',
  'Sessions and processes',
  'Output',
  'Protocol',
  'Sandbox',
  'Limits of programs',
  'Limits of sessions',
  'Requests to web servers',
  'Records',
] as const;

/** What is said of one key: how its value is written, its bounds and what it means. */
export type OptionSpec = Described & (NumberSpec | BooleanSpec | EnumSpec<string> | TextSpec);

/** One row of the table with the names it goes by: TOML key, flag (with its dashes) and environment variable. */
export type ConfigOption = OptionSpec & {
  readonly key: ConfigKey;
  readonly flag: string;
  readonly env: string;
};

type Described = { readonly group: (typeof OPTION_GROUPS)[number]; readonly description: string };
type NumberSpec = {
  readonly type: 'integer' | 'duration' | 'bytes';
  readonly min: number;
  readonly max: number;
};
type BooleanSpec = { readonly type: 'boolean' };
type EnumSpec<T> = { readonly type: 'enum'; readonly values: readonly T[] };
type TextSpec = { readonly type: 'string'; readonly placeholder: string; readonly allowed: string };

/** The spec that a value type calls for, so that a number described as a boolean does not compile. */
export type SpecFor<T> = Described &
  ([T] extends [number]
    ? NumberSpec
    : [T] extends [boolean]
      ? BooleanSpec
      : string extends T
        ? TextSpec
        : EnumSpec<T>);

/** A spec for every key. */
export type OptionSpecs = { readonly [K in ConfigKey]: SpecFor<ExecServerConfig[K]> };
