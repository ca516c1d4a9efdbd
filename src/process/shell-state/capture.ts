import { randomBytes } from 'node:crypto';
import type { Child, Spawner, SpawnSpec } from '../spawn/spawner.ts';
import { releaseSandbox, startProgram, type WrapInSandbox } from '../start-program.ts';
import { captureScript } from './capture-script.ts';
import { DelimitedOutput } from './delimited-output.ts';
import { CAPTURE_TIMEOUT_MS, MAX_EXPORTED_BYTES, MAX_STATE_BYTES } from './limits.ts';
import type { ShellKind } from './login-command.ts';
import { type LoginState, loginStateOf } from './login-state.ts';

/**
 * Runs the login shell `spec.program` in the context of a command and returns its final state. Null when the shell times out or
 * prints nothing usable. Rejects when it cannot be started, and with the reason of `signal` once that aborts.
 */
export async function captureLoginState(
  kind: ShellKind,
  spec: SpawnSpec,
  { spawner, wrapInSandbox }: { readonly spawner: Spawner; readonly wrapInSandbox: WrapInSandbox | null },
  signal: AbortSignal,
): Promise<LoginState | null> {
  const delimiter = randomBytes(16).toString('hex');
  const { program } = spec;
  const shell: SpawnSpec = {
    ...spec,
    argv: [program, '-lc', captureScript(kind, delimiter)],
    io: { kind: 'pipe', stdin: 'closed' },
  };
  const { child, launch } = await startProgram(shell, wrapInSandbox, spawner, signal);
  try {
    const output = new DelimitedOutput(delimiter, MAX_STATE_BYTES + MAX_EXPORTED_BYTES);
    const exited = await runToEnd(child, output, signal);
    signal.throwIfAborted();
    // Processes that the user's files started stay alive, unless the shell had to be killed or runs in a sandbox.
    if (!exited || launch !== null) await child.killTree();
    return output.content === null ? null : loginStateOf(kind, output.content);
  } catch (error) {
    await child.killTree();
    throw error;
  } finally {
    for (const source of child.outputs) source.destroy();
    child.release();
    if (launch !== null) await releaseSandbox(launch);
  }
}

/**
 * Reads the shell's output until the state is complete, the shell fails, or the timeout. Resolves to whether the shell has exited.
 * A background process that it started may hold its output open without end.
 */
function runToEnd(child: Child, output: DelimitedOutput, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    let exited = false;
    let openStreams = child.outputs.length;
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve(exited);
    };
    const check = () => {
      if (output.overflowed || (exited && (output.content !== null || openStreams === 0))) end();
    };
    const timer = setTimeout(end, CAPTURE_TIMEOUT_MS);
    signal.addEventListener('abort', end, { once: true });
    for (const source of child.outputs) {
      const onChunk = source.name === 'stdout' ? (bytes: Buffer) => output.push(bytes) : () => {};
      source.listen(
        (bytes) => {
          onChunk(bytes);
          check();
        },
        () => {
          openStreams--;
          check();
        },
      );
      source.resume();
    }
    child.onExit(() => {
      exited = true;
      check();
    });
  });
}
