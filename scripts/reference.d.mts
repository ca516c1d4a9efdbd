import type { ChildProcess } from 'node:child_process';

export interface RunningServer {
  /** Null for a server that speaks on stdio. */
  readonly url: string | null;
  readonly pid: number;
  readonly child: ChildProcess;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  stop(): Promise<void>;
}

export interface ServerOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly onExit?: () => void;
}

export declare const REFERENCE_VERSION: string;
export declare function ensureReference(): Promise<string>;
export declare function startReference(options?: {
  readonly concurrentRequests?: number;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
}): Promise<RunningServer>;
/** A fresh home folder, with these files in it: contents by name. */
export declare function createHome(files?: Readonly<Record<string, string>>): string;
export declare function startServer(
  command: string,
  args: readonly string[],
  options?: ServerOptions,
): Promise<RunningServer>;
