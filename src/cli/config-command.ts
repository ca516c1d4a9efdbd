import { CONFIG_OPTIONS } from '../server/config/options.ts';
import { describeSource } from '../server/config/resolve.ts';
import { formatConfigValue } from '../server/config/values.ts';
import type { Settings } from './settings.ts';

/** Writes every setting as an aligned table of key, value and source, one per line. */
export function settingsTable({ config, sources }: Settings): string {
  const rows = CONFIG_OPTIONS.map((option) => [
    option.key,
    formatConfigValue(option, config[option.key]),
    describeSource(sources[option.key]),
  ]);
  return align([['KEY', 'VALUE', 'SOURCE'], ...rows]);
}

/** Writes every setting as JSON: `{"file": path or null, "settings": {key: {value, source, detail}}}`. */
export function settingsJson({ config, sources, file }: Settings): string {
  const settings = Object.fromEntries(
    CONFIG_OPTIONS.map(({ key }) => [key, { value: config[key], ...sources[key] }]),
  );
  return `${JSON.stringify({ file, settings }, null, 2)}\n`;
}

function align(rows: readonly (readonly string[])[]): string {
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map(([key, value, source]) => `${key!.padEnd(widths[0]!)}  ${value!.padEnd(widths[1]!)}  ${source}\n`)
    .join('');
}
