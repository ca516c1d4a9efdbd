import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { CLI } from '../unit/cli/run-cli.ts';
import { SECRET } from '../unit/relay/service/relay-fixture.ts';

/** A relay node in a separate process, as users run it. */
export interface RelayNode {
  readonly url: string;
  readonly pid: number;
  readonly stderr: () => string;
  /** Sends a signal and waits for the exit. Resolves with the exit code, or null if the signal killed it. */
  stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null>;
  /** Sends a signal that does not stop the node. */
  signal(signal: 'SIGHUP'): void;
}

/** Creates a temporary folder with the relay's secret in the file `secret`. */
export function relayFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'relay-nodes-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'secret'), SECRET);
  return folder;
}

/** Starts a node and waits for its URL. The end of the test stops it. */
export async function startNode(folder: string, ...flags: string[]): Promise<RelayNode> {
  const args = [CLI, 'relay', '--secret-file', join(folder, 'secret'), ...flags];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const stop = async (signal: 'SIGTERM' | 'SIGKILL') => {
    child.kill(signal);
    return await exited;
  };
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) await stop('SIGKILL');
  });
  const line = once(createInterface(child.stdout), 'line').then(([text]) => text as string);
  const url = await Promise.race([line, exited.then(() => null)]);
  if (url === null) throw new Error(`the relay has ended: ${stderr}`);
  return { url, pid: child.pid!, stop, stderr: () => stderr, signal: (signal) => void child.kill(signal) };
}
