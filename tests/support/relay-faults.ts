import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import type { ExecProcess } from '../../src/client/backend.ts';
import type { ExecServerClient } from '../../src/client/client.ts';
import { ClientError } from '../../src/client/errors.ts';
import { createLogger } from '../../src/observability/log.ts';
import { RunningExecutor } from '../../src/relay/executor/run-executor.ts';
import { serveHarnesses } from '../../src/relay/executor/run-remote-environment.ts';
import { connectRemote } from '../../src/relay/harness/relay-source.ts';
import { bearerAuth } from '../../src/relay/registry-auth.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { type RunningServer, serve } from '../../src/server/serve.ts';
import { token } from '../unit/relay/service/relay-fixture.ts';
import { shell } from './programs.ts';
import { RelayFrameProxy } from './relay-frame-proxy.ts';

const LINES = ['one', 'two', 'three'];
const SCRIPT = 'echo ready; while read line; do echo "got $line"; done; seq 1 20000; exit 3';
const SEQUENCE = Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join('');
const OUTPUT = `ready\n${LINES.map((line) => `got ${line}\n`).join('')}${SEQUENCE}`;

/** More than two records. */
const FILE_BYTES = 100_000;

/** Executors and harnesses in this process, behind one proxy for each kind. The end of the test closes all. */
export class FaultFixture {
  readonly executorSide: RelayFrameProxy;
  readonly harnessSide: RelayFrameProxy;
  readonly #server: RunningServer;
  readonly #folder = mkdtempSync(join(tmpdir(), 'relay-faults-'));
  readonly #content = randomBytes(FILE_BYTES);

  private constructor(server: RunningServer, executorSide: RelayFrameProxy, harnessSide: RelayFrameProxy) {
    this.#server = server;
    this.executorSide = executorSide;
    this.harnessSide = harnessSide;
    writeFileSync(join(this.#folder, 'file'), this.#content);
  }

  /** Opens the proxies. Their targets are set when the relay listens. */
  static async open(): Promise<FaultFixture> {
    const server = await serve({ ...DEFAULT_CONFIG, listen: 'off', shutdownGracePeriodMs: 0 });
    const sides = [await RelayFrameProxy.open(), await RelayFrameProxy.open()] as const;
    const fixture = new FaultFixture(server, ...sides);
    onTestFinished(async () => {
      await fixture.executorSide.close();
      await fixture.harnessSide.close();
      await fixture.#server.close();
      rmSync(fixture.#folder, { recursive: true });
    });
    return fixture;
  }

  /** Starts the executor of a new environment. */
  environment(): { readonly id: string; close(): Promise<void> } {
    const id = `env-${randomUUID().slice(0, 8)}`;
    const executor = new RunningExecutor({
      registryUrl: this.executorSide.url,
      environmentId: id,
      auth: bearerAuth(token('executor', id)),
      log: createLogger('error', () => {}),
      accept: serveHarnesses(this.#server),
    });
    const close = async () => {
      executor.close();
      await executor.ended.catch(() => {});
    };
    onTestFinished(close);
    return { id, close };
  }

  connect(id: string): Promise<ExecServerClient> {
    return retry('connecting', () =>
      connectRemote({ registryUrl: this.harnessSide.url, environmentId: id, auth: token('harness', id) }),
    );
  }

  /** Runs a session with all kinds of frames, and expects that every byte arrives exactly once. */
  async runSession(
    id: string,
    during: SessionCallbacks = {},
  ): Promise<{ readonly states: readonly string[] }> {
    const client = await this.connect(id);
    const states: string[] = [];
    client.onStateChange((state) => states.push(state));
    let starts = 0;
    const process = await retry('starting', () =>
      client.backend.start({ ...shell(`p${++starts}`, SCRIPT), pipeStdin: true }),
    );
    const reading = readEvents(process);
    await during.started?.();
    for (const line of LINES) await process.write(`${line}\n`);
    expect(await process.closeStdin()).toBe(true);
    await during.printing?.();
    const path = pathToFileURL(join(this.#folder, 'file')).href;
    const read = await retry('reading', () => client.call('fs/readFile', { path }));
    expect(digest(Buffer.from(read.dataBase64, 'base64'))).toBe(digest(this.#content));
    const { output, seqs, exitCode } = await reading;
    expect(digest(output)).toBe(digest(OUTPUT));
    expect(exitCode).toBe(3);
    expect(seqs).toEqual(Array.from(seqs, (_, index) => index + 1));
    const seen = [...states];
    await client.close();
    return { states: seen };
  }
}

/** Callbacks during a session. */
interface SessionCallbacks {
  started?(): Promise<void>;
  printing?(): Promise<void>;
}

interface ProcessOutput {
  readonly output: string;
  readonly seqs: readonly number[];
  readonly exitCode: number | null;
}

async function readEvents(process: ExecProcess): Promise<ProcessOutput> {
  const parts: Uint8Array[] = [];
  const seqs: number[] = [];
  let exitCode: number | null = null;
  for await (const event of process.events()) {
    if (event.type === 'failed') throw event.error;
    if (event.type === 'lost') throw new Error(`${event.toSeq - event.fromSeq + 1} events are lost`);
    seqs.push(event.seq);
    if (event.type === 'output') parts.push(event.bytes);
    if (event.type === 'exited') exitCode = event.exitCode;
  }
  return { output: Buffer.concat(parts).toString(), seqs, exitCode };
}

/** Retries temporary failures until the time limit of the test: on a busy machine the client's own limits expire. */
async function retry<T>(what: string, attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!isTemporary(error)) throw new Error(`${what} failed`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** The executor may not be connected yet. In these tests an operation that was perhaps done may be repeated. */
function isTemporary(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false;
  return error.retryable || error.kind === 'connectFailed' || error.kind === 'brokenPipe';
}

function digest(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}
