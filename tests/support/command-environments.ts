import { join } from 'node:path';
import { CONFIG_OPTIONS } from '../../src/server/config/config.ts';
import { formatConfigValue } from '../../src/server/config/values.ts';
import { CLI, type CliRun, firstLine, type Outcome } from '../unit/cli/run-cli.ts';
import { Certificates } from './certificates.ts';
import { CommandUser } from './private-server.ts';
import { ENVIRONMENT, type RunningProgram, startExecutorProgram, TestRelay } from './relay.ts';
import { SshMachine } from './ssh-machine.ts';
import { sshMissing } from './sshd.mjs';
import { waitFor } from './wait-for.ts';

export const LOCAL = 'the private server';
export const SECURE = 'TLS with a token';
export const SSH = 'ssh';
export const RELAY = 'a relay';

/** Every way to another machine. ssh is left out where there is no sshd. */
export const TRANSPORTS = [SECURE, ...(sshMissing() === null ? [SSH] : []), RELAY] as const;

export type TransportName = typeof LOCAL | (typeof TRANSPORTS)[number];

/** Flags and variables that lead to an environment. */
interface Way {
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Every setting as a flag, with the value that it has anyway, except those that are given. */
function settingFlags(given: Readonly<Record<string, string>>): string[] {
  return CONFIG_OPTIONS.flatMap((option) => {
    const { flag, type } = option;
    if (type === 'boolean') return option.default ? [flag] : [`--no-${flag.slice(2)}`];
    return [`${flag}=${given[flag] ?? formatConfigValue(option, option.default)}`];
  });
}

/** Every switch the other way, without those that need more than a flag, or refuse what the commands do. */
const OPPOSITES = CONFIG_OPTIONS.flatMap(({ flag, type, default: value }) => {
  const isLeftOut = [
    ...['--console', '--otel', '--http-private-addresses'],
    ...['--allow-direct-exec', '--allow-prepared-exec', '--native-spawn'],
  ].includes(flag);
  if (type !== 'boolean' || isLeftOut) return [];
  return value ? [`--no-${flag.slice(2)}`] : [flag];
});

/** Flags of codex that have no effect here. */
const IGNORED = [
  ...['--enable', 'one', '--disable', 'two', '--linux-sandbox-pid-namespace', 'isolate'],
  '--proxy-private-ips-via-upstream',
];

/** A user of commands, and servers that it reaches over every transport. */
export class CommandEnvironments {
  readonly user = new CommandUser();
  readonly certificates = new Certificates();
  readonly #ways = new Map<string, Way>([[LOCAL, { flags: ['-E', 'local'], env: {} }]]);
  #secure: CliRun | null = null;
  #machine: SshMachine | null = null;
  #relay: TestRelay | null = null;
  #executor: RunningProgram | null = null;

  static async open(): Promise<CommandEnvironments> {
    const environments = new CommandEnvironments();
    try {
      await Promise.all([
        environments.#openSecure(),
        environments.#openRelay(),
        sshMissing() === null && environments.#openSsh(),
      ]);
      return environments;
    } catch (error) {
      await environments.close();
      throw error;
    }
  }

  /** A path in the home of the user. */
  at(name: string): string {
    return join(this.user.workspace.path, name);
  }

  way(name: TransportName): Way {
    return this.#ways.get(name)!;
  }

  /** The machine behind ssh. */
  get machine(): SshMachine {
    return this.#machine!;
  }

  get relay(): TestRelay {
    return this.#relay!;
  }

  start(name: TransportName, command: string, ...args: string[]): CliRun {
    const { flags, env } = this.way(name);
    return this.user.start([command, ...flags, ...args], env);
  }

  /** Runs a command to its end, with an empty stdin. */
  run(name: TransportName, command: string, ...args: string[]): Promise<Outcome> {
    const { child, outcome } = this.start(name, command, ...args);
    child.stdin.end();
    return outcome;
  }

  /** Starts a command on a terminal, which the private server provides. Returns the reference of the command there. */
  async startOnTerminal(name: TransportName, command: string, ...args: string[]): Promise<string> {
    const { flags, env } = this.way(name);
    const program = [process.execPath, CLI, command, ...flags, ...args];
    const { code, stdout, stderr } = await this.user.run(['run', '-d', '-t', '-i', '--', ...program], env);
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  }

  /** Ends everything. Returns how the TLS server has ended. */
  async close(): Promise<Outcome | undefined> {
    await this.#executor?.stop();
    await this.#relay?.close();
    await this.#machine?.close();
    this.#secure?.child.kill('SIGTERM');
    const outcome = await this.#secure?.outcome;
    await this.user.close();
    this.certificates.remove();
    return outcome;
  }

  async #openSecure(): Promise<void> {
    const { user, certificates } = this;
    const authority = certificates.authority('authority');
    const { cert, key } = certificates.signedBy(authority, 'server');
    const secret = user.workspace.file('secret', 'a secret of more than thirty-two bytes');
    this.#secure = user.start([
      ...['serve', '--strict-config'],
      ...settingFlags({
        ...{ '--listen': 'wss://127.0.0.1:0', '--tls-cert': cert, '--tls-key': key },
        ...{ '--ws-auth': 'signed-bearer-token', '--ws-shared-secret-file': secret },
        ...{ '--ws-issuer': 'us', '--ws-audience': 'them', '--environment-id': 'box' },
        '--log-level': 'error',
        '--record-dir': this.at('recordings'),
        '--audit-log': this.at('audit.jsonl'),
        '--metrics-listen': '127.0.0.1:0',
      }),
    ]);
    const url = await firstLine(this.#secure);
    const claims = ['--subject', 'ana', '--issuer', 'us', '--audience', 'them', '--environment', 'box'];
    const rights = ['--scope', 'exec,files,net,observe', '--expires-in', '10m', '--id', 'one'];
    await this.#succeeds([
      'token',
      'signed',
      '--secret-file',
      secret,
      ...claims,
      ...rights,
      '--out',
      'token',
    ]);
    const env = { SSL_CERT_FILE: authority.cert };
    this.#ways.set(SECURE, { flags: ['-E', url, '--token-file', 'token'], env });
  }

  async #openRelay(): Promise<void> {
    const relay = await TestRelay.open();
    this.#relay = relay;
    const executor = startExecutorProgram(relay, [...OPPOSITES, ...IGNORED]);
    this.#executor = executor;
    await waitFor('the executor', () => executor.stderr().includes('connected to'));
    const harness = this.user.workspace.file('relay.token', relay.token('harness'));
    const add = ['env', 'add', 'behind', relay.harnessUrl, '--token-file', harness];
    await this.#succeeds([...add, '--environment-id', ENVIRONMENT]);
    this.#ways.set(RELAY, { flags: ['-E', 'behind'], env: {} });
  }

  async #openSsh(): Promise<void> {
    this.#machine = await SshMachine.start(this.user);
    const { url, env } = this.#machine;
    this.#ways.set(SSH, { flags: ['-E', url], env });
  }

  async #succeeds(args: readonly string[]): Promise<void> {
    const { code, stderr } = await this.user.run(args);
    if (code !== 0) throw new Error(`${args.join(' ')} exited with ${code}: ${stderr}`);
  }
}
