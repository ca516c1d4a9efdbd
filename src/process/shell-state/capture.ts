import { randomBytes } from 'node:crypto';
import type { Child, Spawner, SpawnSpec } from '../spawn/spawner.ts';
import { releaseSandbox, startProgram, type WrapInSandbox } from '../start-program.ts';
import { captureScript } from './capture-script.ts';
import { CAPTURE_TIMEOUT_MS, MAX_EXPORTED_BYTES, MAX_STATE_BYTES } from './limits.ts';
import type { ShellKind } from './login-command.ts';
import { type LoginState, loginStateOf } from './login-state.ts';
import { MarkedOutput } from './marked-output.ts';

/**
 * Runs the login shell `spec.program` in the place of a command and returns the state it ends up in; null when it does not get that
 * far in time or shows nothing of use. Rejects when it cannot be started, and with the signal's reason once that is aborted.
 */
export async function captureLoginState(
  kind: ShellKind,
  spec: SpawnSpec,
  { spawner, wrapInSandbox }: { readonly spawner: Spawner; readonly wrapInSandbox: WrapInSandbox | null },
  signal: AbortSignal,
): Promise<LoginState | null> {
  const mark = randomBytes(16).toString('hex');
  const { program } = spec;
  const shell: SpawnSpec = {
    ...spec,
    argv: [program, '-lc', captureScript(kind, mark)],
    io: { kind: 'pipe', stdin: 'closed' },
  };
  const { child, launch } = await startProgram(shell, wrapInSandbox, spawner, signal);
  try {
    const output = new MarkedOutput(mark, MAX_STATE_BYTES + MAX_EXPORTED_BYTES);
    const exited = await runToEnd(child, output, signal);
    signal.throwIfAborted();
    // What the user's files have started lives on, unless the shell itself had to be ended or runs in a sandbox.
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
 * Reads what the shell prints until it has shown its state, fails to, or takes too long. Whether it has exited by then; something
 * that it started in the background may hold its output open for ever.
 */
function runToEnd(child: Child, output: MarkedOutput, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    let exited = false;
    let openStreams = child.outputs.length;
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve(exited);
    };
    const check = () => {
      if (output.overflown || (exited && (output.content !== null || openStreams === 0))) end();
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
