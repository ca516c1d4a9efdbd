import type { CallOptions } from '../../environment/index.ts';
import type { KeyedLocks } from './keyed-locks.ts';
import { PROGRESS_INTERVAL_MS, REQUEST_TIMEOUT_MS } from './limits.ts';
import type { ArgumentsOf, Parameters } from './parameters.ts';
import type { SandboxedPrograms } from './process/confinement.ts';
import type { Positions } from './process/positions.ts';
import type {
  AgentToolName,
  JsonSchemaProperty,
  ToolAnnotations,
  ToolProgress,
  ToolResource,
} from './types.ts';
import type { NamedEnvironment, Workspace } from './workspace.ts';

/** What a tool answers. */
export interface Answer {
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
  readonly resources?: readonly ToolResource[];
  readonly isError?: boolean;
}

/** One call of a tool. */
export interface Call {
  readonly target: NamedEnvironment;
  readonly callId: string;
  readonly workspace: Workspace;
  readonly positions: Positions;
  readonly programs: SandboxedPrograms;
  /** Changes of a file happen one after the other in all tools of an environment, so that concurrent edits do not overwrite each other. */
  readonly fileLocks: KeyedLocks;
  /** Whether there are only tools that read. */
  readonly readOnly: boolean;
  /** Most tokens of output. */
  readonly maxOutputTokens: number;
  /** Aborts when the call was cancelled, its time is up, or the tools were closed. */
  readonly signal: AbortSignal;
  readonly startedAt: number;
  readonly onProgress: ((progress: ToolProgress) => void) | undefined;
}

/** A tool before it is bound to environments. */
export interface ToolSpec {
  readonly name: AgentToolName;
  readonly title: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, JsonSchemaProperty>>;
  readonly required: readonly string[];
  readonly annotations: ToolAnnotations;
  /** What a call changes, in one line for an approval. Null: it only reads. */
  readonly summary: ((args: Readonly<Record<string, unknown>>) => string | null) | null;
  run(args: Readonly<Record<string, unknown>>, call: Call): Promise<Answer>;
}

/** Defines a tool. The types of its arguments follow from its parameters. */
export function defineTool<P extends Parameters, R extends keyof P & string>(
  spec: Omit<ToolSpec, 'parameters' | 'required' | 'summary' | 'run'> & {
    readonly parameters: P;
    readonly required: readonly R[];
    readonly summary: ((args: ArgumentsOf<P, R>) => string | null) | null;
    run(args: ArgumentsOf<P, R>, call: Call): Promise<Answer>;
  },
): ToolSpec {
  return spec as unknown as ToolSpec;
}

/** Options of one request of a call. */
export function requestOptions({ signal }: Pick<Call, 'signal'>): CallOptions {
  return { signal, timeoutMs: REQUEST_TIMEOUT_MS };
}

/** Reports the progress of a call until the returned function is called. Exceptions of the listener are ignored. */
export function reportProgress({ onProgress, startedAt }: Call, message: () => string): () => void {
  if (onProgress === undefined) return () => {};
  const timer = setInterval(() => {
    try {
      onProgress({ elapsedMs: Math.round(performance.now() - startedAt), message: message() });
    } catch {
      // It must not end the call.
    }
  }, PROGRESS_INTERVAL_MS);
  return () => clearInterval(timer);
}
