import { DOOR_SPECS } from './door-specs.ts';
import type { ConfigKey, ConfigOption, OptionSpecs } from './option-spec.ts';
import { PROGRAM_SPECS } from './program-specs.ts';
import { SERVICE_SPECS } from './service-specs.ts';

/**
 * Every key of ExecServerConfig, in the order of the interface. A key missing here does not compile; flags, environment
 * variables, TOML, `exec-server config`, help and docs/cli.md all come from this table.
 * A description repeats the key's doc comment in config.ts, which a test compares.
 */
const SPECS: OptionSpecs = { ...DOOR_SPECS, ...SERVICE_SPECS, ...PROGRAM_SPECS };

/** Every option in table order. */
export const CONFIG_OPTIONS: readonly ConfigOption[] = Object.entries(SPECS).map(([key, spec]) => ({
  ...spec,
  key: key as ConfigKey,
  flag: `--${words(key.replace(/Ms$/, '')).join('-')}`,
  env: `EXEC_SERVER_${words(key).join('_').toUpperCase()}`,
}));

function words(camelCase: string): string[] {
  return camelCase.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
}
