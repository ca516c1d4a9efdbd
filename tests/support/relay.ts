import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ExecServerClient } from '../../src/client/client.ts';
import { createLogger } from '../../src/observability/log.ts';
import { connectRemote, type RemoteOptions } from '../../src/relay/harness/relay-source.ts';
import { type TokenRole, writeToken } from '../../src/relay/service/access/access-tokens.ts';
import { Seal } from '../../src/relay/service/access/sealed-text.ts';
import { type RelayConfig, type RunningRelay, startRelay } from '../../src/relay/service/relay.ts';
import { TcpProxy } from '../../src/testing/index.ts';
import type { ConnectedClient } from './connected-clients.ts';
import { onFreePort, whileTaken } from './free-port.ts';

export const ENVIRONMENT = 'env-1';
export const SECRET = 'a secret of at least thirty-two bytes';

/** Creates a token of the environment for relays with the secret. */
export function relayToken(role: TokenRole): string {
  const claims = { id: randomUUID(), role, environmentId: ENVIRONMENT, expiresAt: null };
  return writeToken(new Seal(SECRET), claims);
}

/** A relay in this process. Executors and harnesses reach it through two TCP proxies that a test can break. */
export class TestRelay {
  readonly executorLink: TcpProxy;
  readonly harnessLink: TcpProxy;
  readonly #config: RelayConfig;
  #relay: RunningRelay;

  private constructor(
    config: RelayConfig,
    relay: RunningRelay,
    executorLink: TcpProxy,
    harnessLink: TcpProxy,
  ) {
    this.#config = config;
    this.#relay = relay;
    this.executorLink = executorLink;
    this.harnessLink = harnessLink;
  }

  static open(config: Partial<RelayConfig> = {}): Promise<TestRelay> {
    return onFreePort((port) => TestRelay.#openAt(port, config));
  }

  /** The proxies need the port before the relay listens. */
  static async #openAt(port: number, config: Partial<RelayConfig>): Promise<TestRelay> {
    const target = `ws://127.0.0.1:${port}`;
    const [executorLink, harnessLink] = await Promise.all([TcpProxy.open(target), TcpProxy.open(target)]);
    const whole: RelayConfig = {
      address: { kind: 'websocket', secure: false, host: '127.0.0.1', port },
      tls: null,
      secret: SECRET,
      store: 'memory',
      publicUrl: executorLink.url.replace('ws', 'http'),
      nodeUrl: harnessLink.url.replace('ws', 'http'),
      revokedFile: null,
      auditLog: null,
      metrics: false,
      log: createLogger('error', () => {}),
      ...config,
    };
    try {
      return new TestRelay(whole, await startRelay(whole), executorLink, harnessLink);
    } catch (error) {
      await Promise.all([executorLink.close(), harnessLink.close()]);
      throw error;
    }
  }

  /** Replaces the relay by a new one without data. */
  async restart(): Promise<void> {
    await this.#relay.close();
    this.#relay = await whileTaken(() => startRelay(this.#config));
  }

  /** The `--remote` of executors. */
  get executorUrl(): string {
    return this.executorLink.url.replace('ws', 'http');
  }

  /** The registry URL of harnesses. */
  get harnessUrl(): string {
    return this.harnessLink.url.replace('ws', 'http');
  }

  token(role: TokenRole): string {
    return relayToken(role);
  }

  /** Connects as a harness and waits for the executor if it is offline. */
  connect(options: Partial<RemoteOptions> = {}): Promise<ExecServerClient> {
    return connectRemote({
      registryUrl: this.harnessUrl,
      environmentId: ENVIRONMENT,
      auth: this.token('harness'),
      ...options,
    });
  }

  async close(): Promise<void> {
    await this.#relay.close();
    await this.executorLink.close();
    await this.harnessLink.close();
  }
}

/** A program that runs until it is stopped. */
export interface RunningProgram {
  readonly process: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** The exit code, or the signal. */
  readonly exited: Promise<number | string>;
  stop(): Promise<void>;
}

/** Starts the built program as an executor of the relay. */
export function startExecutorProgram(relay: TestRelay, flags: readonly string[] = []): RunningProgram {
  const place = ['--remote', relay.executorUrl, '--environment-id', ENVIRONMENT];
  return startBin([...place, ...flags], { EXEC_SERVER_API_KEY: relay.token('executor') });
}

/** Starts the built program. */
export function startBin(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = process.cwd(),
): RunningProgram {
  return startProgram(process.execPath, [BIN, ...args], { env, cwd });
}

/** Starts a program with a pipe as stdin. */
export function startProgram(
  program: string,
  args: readonly string[],
  options: {
    readonly env: Readonly<Record<string, string>>;
    readonly cwd?: string;
    readonly onExit?: () => void;
  },
): RunningProgram {
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
    cwd: options.cwd,
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const exited = once(child, 'close').then(([code, signal]) => {
    options.onExit?.();
    return code ?? signal;
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await exited;
  };
  return { process: child, stdout: () => stdout, stderr: () => stderr, exited, stop };
}

/** Connects through a relay to a server in a separate process. */
export async function overRelay(
  options: Partial<RemoteOptions> = {},
): Promise<ConnectedClient & { readonly relay: TestRelay }> {
  const relay = await TestRelay.open();
  const executor = startExecutorProgram(relay);
  const end = () => executor.stop().finally(() => relay.close());
  try {
    const client = await connectWhenThere(relay, options);
    return { client, relay, close: () => client.close().finally(end) };
  } catch (error) {
    await end();
    throw new Error(`${(error as Error).message}\n${executor.stderr()}`);
  }
}

/** Connects as soon as an executor is registered. Before that, the registry answers with an error. */
export async function connectWhenThere(
  relay: TestRelay,
  options: Partial<RemoteOptions> = {},
): Promise<ExecServerClient> {
  for (const deadline = Date.now() + EXECUTOR_START_MS; ; ) {
    try {
      return await relay.connect(options);
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const EXECUTOR_START_MS = 15_000;
const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
