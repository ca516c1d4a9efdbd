import type { AwsSigning } from '../relay/direct/direct-executor.ts';
import { CODEX_CONFIG_KEYS } from '../relay/sign-in/codex-config.ts';
import { CONFIG_OPTIONS, type ConfigKey } from '../server/config/config.ts';
import type { ResolvedConfig } from '../server/config/resolve.ts';
import { quoteValue } from '../server/config/values.ts';
import type { Host } from './commands.ts';
import { RunError, UsageError } from './failures.ts';
import type { Flags, GivenFlags } from './flags.ts';

/** Flags of `codex exec-server` for the connection to a registry, which `forward` takes too. */
export const REMOTE_TRANSPORT_FLAGS = {
  'remote-transport': { type: 'string' },
  'aws-sigv4': { type: 'boolean' },
  'aws-profile': { type: 'string' },
  'aws-region': { type: 'string' },
  'aws-service': { type: 'string' },
} as const satisfies Flags;

/** Flags of `codex exec-server` that set something of codex, which `forward` takes too. */
export const CODEX_FLAGS = {
  config: { type: 'string', short: 'c', multiple: true },
  enable: { type: 'string', multiple: true },
  disable: { type: 'string', multiple: true },
  'strict-config': { type: 'boolean' },
  'linux-sandbox-pid-namespace': { type: 'string' },
  'proxy-private-ips-via-upstream': { type: 'boolean' },
} as const satisfies Flags;

type Given = Readonly<Record<string, unknown>>;

/**
 * Returns how the direct transport signs its requests, or null for the Noise transport. Throws UsageError for flags that contradict each
 * other or need another one, and RunError where the reference exits with 1.
 */
export function signingOf(given: Given, command: string | null = null): AwsSigning | null {
  const flags = given as GivenFlags<typeof REMOTE_TRANSPORT_FLAGS>;
  const refuse = (problem: string) => new UsageError(problem, command);
  for (const name of Object.keys(REMOTE_TRANSPORT_FLAGS)) {
    if (name in given && !('remote' in given)) throw refuse(`--${name} needs --remote`);
    if (name.startsWith('aws-') && name in given && !flags['aws-sigv4']) {
      throw refuse(`--${name} needs --aws-sigv4`);
    }
  }
  const transport = flags['remote-transport'] ?? 'noise';
  if (transport !== 'noise' && transport !== 'direct') {
    throw refuse(
      `--remote-transport: ${quoteValue(transport)} is not one of the choices; allowed: noise, direct`,
    );
  }
  for (const name of ['executor-credential-stdin', 'use-agent-identity-auth']) {
    if (flags['aws-sigv4'] && name in given) throw refuse(`--aws-sigv4 contradicts --${name}; give only one`);
  }
  if (transport === 'noise') {
    if (flags['aws-sigv4']) throw new RunError('--aws-sigv4 needs --remote-transport direct');
    return null;
  }
  if (!flags['aws-sigv4']) throw refuse('--remote-transport direct needs --aws-sigv4');
  const { 'aws-profile': profile = null, 'aws-region': region = null, 'aws-service': service = null } = flags;
  return { profile, region, service };
}

/** What the flags that set something of codex mean here. */
export interface CodexFlags {
  /** The settings file of `--config FILE`; null when none is named. */
  readonly file: string | null;
  /** Settings of `--config KEY=VALUE`, by the key of the settings file, without quotes. */
  readonly overrides: Readonly<Partial<Record<ConfigKey, string>>>;
  /** Values of `--config KEY=VALUE` for the sign-in at a registry, by the key of codex's config.toml. */
  readonly signIn: Readonly<Record<string, string>>;
  /** What is accepted and has no effect. */
  readonly warnings: readonly string[];
}

/**
 * Reads the flags that set something of codex. Accepts what has no effect on a server, with a warning. Throws UsageError or RunError for
 * what would change what a sandbox allows, and with --strict-config for everything without an effect.
 */
export function codexFlags(given: Given, command: string | null = null): CodexFlags {
  const flags = given as GivenFlags<typeof CODEX_FLAGS>;
  const isServer = command === null;
  checkProcessNamespace(flags['linux-sandbox-pid-namespace'], isServer, command);
  const { file, overrides, signIn, foreign } = configValues(
    flags.config ?? [],
    isServer ? SETTINGS : NONE,
    'remote' in given && !('aws-sigv4' in given) ? SIGN_IN : NONE,
    command,
  );
  const warnings = foreign.map((key) => `-c ${key} has no effect: it is not a setting of this program`);
  for (const name of [...(flags.enable ?? []), ...(flags.disable ?? [])]) {
    warnings.push(
      `the feature ${quoteValue(name)} has no effect: features belong to codex, not to this program`,
    );
  }
  if (flags['strict-config'] && warnings.length > 0) throw new RunError(`--strict-config: ${warnings[0]}`);
  if (flags['proxy-private-ips-via-upstream']) warnings.push(noUpstream('--proxy-private-ips-via-upstream'));
  return { file, overrides, signIn, warnings };
}

/** Prints what was accepted and has no effect. */
export function reportIgnored(
  warnings: readonly string[],
  { env, stderr }: Pick<Host, 'env' | 'stderr'>,
): void {
  const variable = /^(?:1|true)$/i.test(env[PRIVATE_IPS_VARIABLE] ?? '')
    ? [noUpstream(PRIVATE_IPS_VARIABLE)]
    : [];
  for (const warning of [...warnings, ...variable]) stderr.write(`exec-server: warning: ${warning}\n`);
}

/** Prints the variables that begin like ours and mean nothing here. */
export function reportUnknownVariables(
  { unknownVariables }: Pick<ResolvedConfig, 'unknownVariables'>,
  { stderr }: Pick<Host, 'stderr'>,
): void {
  if (unknownVariables.length === 0) return;
  const names = unknownVariables.slice(0, MAX_NAMED).map(quoteValue).join(', ');
  const more = unknownVariables.length > MAX_NAMED ? ` and ${unknownVariables.length - MAX_NAMED} more` : '';
  const plural = unknownVariables.length > 1;
  stderr.write(
    `exec-server: warning: unknown variable${plural ? 's' : ''} ${names}${more} in the environment; ` +
      `${plural ? 'they have' : 'it has'} no effect, 'exec-server config' lists the valid ones\n`,
  );
}

const MAX_NAMED = 5;

/** The variable of --proxy-private-ips-via-upstream. */
const PRIVATE_IPS_VARIABLE = 'CODEX_EXEC_SERVER_PROXY_PRIVATE_IPS_VIA_UPSTREAM';

function noUpstream(name: string): string {
  return `${name} has no effect: the proxy of a program connects directly, and a start that needs an upstream proxy is refused`;
}

/** A sandbox always has its own processes. A program that only forwards has no sandboxes. */
function checkProcessNamespace(mode = 'isolate', hasSandboxes: boolean, command: string | null): void {
  if (mode !== 'isolate' && mode !== 'inherit') {
    throw new UsageError(
      `--linux-sandbox-pid-namespace: ${quoteValue(mode)} is not one of the choices; allowed: isolate, inherit`,
      command,
    );
  }
  if (mode === 'isolate' || !hasSandboxes) return;
  throw new RunError(
    '--linux-sandbox-pid-namespace inherit is not supported: a sandboxed program could see and signal the processes outside; leave it out',
  );
}

const SETTINGS: ReadonlySet<string> = new Set(CONFIG_OPTIONS.map(({ key }) => key));
const SIGN_IN: ReadonlySet<string> = new Set(CODEX_CONFIG_KEYS);
const NONE: ReadonlySet<string> = new Set();

/** Divides the values of --config into a file, values of these settings, values for the sign-in, and other keys. */
function configValues(
  values: readonly string[],
  settings: ReadonlySet<string>,
  signInKeys: ReadonlySet<string>,
  command: string | null,
) {
  const signIn: Record<string, string> = {};
  const overrides: Partial<Record<ConfigKey, string>> = {};
  const foreign: string[] = [];
  let file: string | null = null;
  for (const value of values) {
    const [, key, text] = /^\s*([A-Za-z0-9_"'.-]+)\s*=(.*)$/s.exec(value) ?? [];
    if (key === undefined) {
      if (value === '') throw new UsageError('--config needs a value', command);
      if (file !== null) throw new UsageError('--config names more than one file', command);
      file = value;
    } else if (settings.has(key)) {
      overrides[key as ConfigKey] = text!.trim().replace(/^(['"])(.*)\1$/s, '$2');
    } else if (signInKeys.has(key)) {
      signIn[key] = text!.trim();
    } else {
      foreign.push(key);
    }
  }
  return { file, overrides, signIn, foreign };
}
