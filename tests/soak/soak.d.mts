export interface ServerState {
  readonly processes: number;
  readonly descriptors: number;
  readonly memory: number;
}

/** Rejects when something is lost or left. */
export function runSoak(options: {
  seconds: number;
  connections: number;
  processes: number;
  seed?: number;
  report?: (line: string) => void;
}): Promise<{
  drops: number;
  lines: number;
  restarts: number;
  requests: number;
  before: ServerState;
  after: ServerState;
}>;
