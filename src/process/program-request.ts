import { childEnvironment, type EnvMetadata, type EnvPolicy } from './env-policy.ts';
import { ProcessError } from './errors.ts';
import { loginShell } from './login-shell.ts';
import type { ChildIo, SpawnSpec } from './spawn/spawner.ts';
import { DEFAULT_TERMINAL_SIZE, type TerminalSize } from './terminal-size.ts';

/** A program as a caller requests it. */
export interface ProgramRequest {
  readonly argv: readonly string[];
  /** What the program sees as argv[0], if not the first element of `argv`. */
  readonly arg0: string | null | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly io: ChildIo;
  readonly envPolicy: EnvPolicy | null;
  readonly metadata: EnvMetadata | null;
}

/** Derives the standard streams from the options of a start. */
export function ioOf(options: {
  readonly tty: boolean;
  readonly pipeStdin?: boolean | undefined;
  readonly size?: TerminalSize | null | undefined;
}): ChildIo {
  if (options.tty) return { kind: 'pty', ...(options.size ?? DEFAULT_TERMINAL_SIZE) };
  return { kind: 'pipe', stdin: options.pipeStdin ? 'open' : 'closed' };
}

/** What the operating system runs in the native directory `cwd`. Throws on an empty command. */
export function spawnSpecOf(request: ProgramRequest, cwd: string): SpawnSpec {
  const { argv, arg0, io, envPolicy: policy, metadata } = request;
  const [program] = argv;
  if (program === undefined) throw new ProcessError('emptyArgv', 'argv must not be empty');
  const env = childEnvironment({ env: request.env, policy, metadata }, process.env);
  if (io.kind === 'pty') env.SHELL ??= loginShell().path;
  return { program, argv: [arg0 ?? program, ...argv.slice(1)], cwd, env, io };
}
