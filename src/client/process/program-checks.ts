import type { EnvPolicy } from '../backend.ts';
import {
  checkBoolean,
  checkCount,
  checkDuration,
  checkFunction,
  checkOneOf,
  checkText,
  expectOptions,
  type OptionNames,
  wrong,
} from '../connection/option-checks.ts';
import { expectInput } from './input.ts';
import type { ProgramOptions } from './program-options.ts';
import type { SpawnOptions } from './spawn.ts';

/** Checks the values of the options of a program. `call` is `run` or `spawn`. Throws ClientError. */
export function checkProgramOptions(call: string, options: SpawnOptions): void {
  const { env, envPolicy, tty, detached, limits, record } = options;
  for (const name of ['onStdout', 'onStderr', 'onOutput', ...HOOKS] as const)
    checkFunction(name, options[name]);
  for (const name of ['name', 'processId'] as const) checkText(name, options[name]);
  if (options.arg0 !== null) checkText('arg0', options.arg0);
  checkBoolean('pipeStdin', options.pipeStdin);
  if (options.holdOutput !== null) checkBoolean('holdOutput', options.holdOutput);
  expectInput(options.input);
  checkTexts('env', env);
  if (typeof tty === 'object' && tty !== null) {
    expectOptions(`\`tty\` of ${call}`, tty, { rows: true, cols: true });
    expectTerminalSize(tty.rows, tty.cols, 'tty.');
  } else if (tty !== undefined && typeof tty !== 'boolean') {
    throw wrong('`tty` is', tty, 'true, false or a size', 'write { rows: 24, cols: 80 } for a size');
  }
  if (typeof detached === 'object' && detached !== null) {
    expectOptions(`\`detached\` of ${call}`, detached, { retainMs: true });
    checkDuration('detached.retainMs', detached.retainMs);
  } else if (detached !== undefined && typeof detached !== 'boolean') {
    throw wrong('`detached` is', detached, 'true, false or an object', 'write { retainMs: 86_400_000 }');
  }
  if (typeof record === 'object' && record !== null) {
    expectOptions(`\`record\` of ${call}`, record, { input: true });
    checkBoolean('record.input', record.input);
  } else if (record != null && typeof record !== 'boolean') {
    throw wrong(
      '`record` is',
      record,
      'true, false or an object',
      'write { input: true } to record input too',
    );
  }
  checkLimits(call, limits);
  checkEnvPolicy(call, envPolicy);
}

/** Checks the size of a terminal. `prefix` is that of the names in the error. */
export function expectTerminalSize(rows: unknown, cols: unknown, prefix = ''): void {
  // Undefined is missing here, not a default.
  checkCount(`${prefix}rows`, rows ?? null, MAX_CELLS);
  checkCount(`${prefix}cols`, cols ?? null, MAX_CELLS);
}

function checkLimits(call: string, limits: ProgramOptions['limits']): void {
  if (limits == null) return;
  expectOptions(`\`limits\` of ${call}`, limits, LIMITS);
  for (const [name, value] of Object.entries(limits)) if (value !== null) checkCount(`limits.${name}`, value);
}

function checkEnvPolicy(call: string, policy: ProgramOptions['envPolicy']): void {
  if (policy === undefined) return;
  expectOptions(`\`envPolicy\` of ${call}`, policy, ENV_POLICY);
  checkOneOf('envPolicy.inherit', policy.inherit, ['all', 'core', 'none']);
  checkBoolean('envPolicy.ignoreDefaultExcludes', policy.ignoreDefaultExcludes);
  checkTexts('envPolicy.set', policy.set);
  for (const name of ['exclude', 'includeOnly'] as const) {
    const patterns: unknown = policy[name];
    const isList = Array.isArray(patterns) && patterns.every((one) => typeof one === 'string');
    if (patterns !== undefined && !isList)
      throw wrong(`\`envPolicy.${name}\` is`, patterns, 'a list of texts');
  }
}

function checkTexts(name: string, values: unknown): void {
  if (values === undefined) return;
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw wrong(`\`${name}\` is`, values, 'an object with texts');
  for (const [key, value] of Object.entries(values)) {
    if (typeof value === 'string') continue;
    throw wrong(`\`${name}.${key}\` is`, value, 'a text', 'convert it with String(), or leave it out');
  }
}

/** The largest size of a terminal in one direction, an unsigned number of 16 bits. */
const MAX_CELLS = 65_535;

const HOOKS = ['onNetworkPolicyRequest', 'onNetworkPolicyDecision'] as const;

const LIMITS: OptionNames<NonNullable<ProgramOptions['limits']>> = {
  memoryBytes: true,
  pids: true,
  cpuPercent: true,
  wallMs: true,
  idleMs: true,
  outputBytes: true,
};

const ENV_POLICY: OptionNames<EnvPolicy> = {
  inherit: true,
  ignoreDefaultExcludes: true,
  exclude: true,
  set: true,
  includeOnly: true,
};
