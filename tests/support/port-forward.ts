import { once } from 'node:events';
import { connect } from 'node:net';
import { onTestFinished } from 'vitest';
import type { CommandUser } from './private-server.ts';
import { waitFor } from './wait-for.ts';

/** A running `exec-server port-forward`. */
export interface RunningForward {
  /** The local ports, in the order of their lines. */
  readonly ports: readonly number[];
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Sends a signal and returns the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts the command and waits until it has printed as many ports as it has operands. It is stopped at the end of the test. */
export async function startForward(
  user: CommandUser,
  args: readonly string[],
  { env = {}, count = 1 }: { env?: Readonly<Record<string, string>>; count?: number } = {},
): Promise<RunningForward> {
  const { child, outcome } = user.start(['port-forward', ...args], env);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => {
    stdout += text;
  });
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return (await outcome).code;
  };
  onTestFinished(async () => void (await stop()));
  const ports = () => [...stdout.matchAll(/^(?:\S+:(\d+) -> |.*"type":"listening".*"port":(\d+))/gm)];
  await waitFor('the ports', () => {
    if (child.exitCode !== null) throw new Error(`it exited with ${child.exitCode}: ${stderr}`);
    return ports().length >= count;
  });
  return {
    ports: ports().map(([, inText, inJson]) => Number(inText ?? inJson)),
    stdout: () => stdout,
    stderr: () => stderr,
    stop,
  };
}

/** What a local port answers to `sent`: all bytes until its end, or the code of an error. The sending side is ended first. */
export async function answerOf(port: number, sent: string | Uint8Array, host = '127.0.0.1'): Promise<string> {
  const socket = connect({ port, host, allowHalfOpen: true });
  let got = '';
  socket.on('data', (bytes) => {
    got += bytes;
  });
  socket.end(sent);
  try {
    await once(socket, 'end');
    return got;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    socket.destroy();
  }
}
