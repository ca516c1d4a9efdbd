import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { onFreePort, whileTaken } from '../../../support/free-port.ts';

/** A separate redis-server on a free loopback port. It loses all data when it is stopped. */
export class RedisServer {
  readonly url: string;
  readonly #port: number;
  readonly #folder = mkdtempSync(join(tmpdir(), 'relay-redis-'));
  #process: ChildProcess | null = null;

  private constructor(port: number) {
    this.#port = port;
    this.url = `redis://127.0.0.1:${port}`;
  }

  /** Starts a server and stops it at the end of the test. */
  static start(): Promise<RedisServer> {
    return onFreePort(async (port) => {
      const server = new RedisServer(port);
      onTestFinished(async () => {
        await server.stop();
        rmSync(server.#folder, { recursive: true });
      });
      await server.#start();
      return server;
    });
  }

  /** Starts the server again on the same port. */
  start(): Promise<void> {
    return whileTaken(() => this.#start());
  }

  async #start(): Promise<void> {
    const flags = ['--port', String(this.#port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
    const child = spawn('redis-server', [...flags, '--dir', this.#folder], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.#process = child;
    let printed = '';
    for await (const chunk of child.stdout) {
      printed += chunk;
      if (printed.includes(READY)) break;
    }
    // The end of the output may come before the exit.
    if (!printed.includes(READY)) throw new Error(`redis-server has ended: ${printed}`);
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Closes the connections of all clients. */
  async cutClients(): Promise<void> {
    await this.#tell('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  }

  /** Denies a command to all clients from now on. */
  async forbid(command: string): Promise<void> {
    await this.#tell('ACL', 'SETUSER', 'default', `-${command}`);
  }

  /** Suspends the server: connections stay open without answers. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }

  async #tell(...command: string[]): Promise<void> {
    const { createClient } = await import('@redis/client');
    const client = createClient({ url: this.url });
    await client.connect();
    await client.sendCommand(command);
    client.destroy();
  }
}

const READY = 'Ready to accept connections';
