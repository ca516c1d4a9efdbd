/** A server with the documented limits and a client in another process that measures its event loop. */
export class Stage {
  static open(): Promise<Stage>;
  /** The errors that the server has logged. */
  readonly errors: readonly string[];
  close(): Promise<void>;
}

/** Times in milliseconds. Only `blockMs` does not depend on other processes of the machine. */
export interface Measured {
  /** CPU time of the server's main thread between two answers to the measuring client, at most. */
  readonly blockMs: number;
  /** Time between two answers in which neither process waited for a CPU. */
  readonly stallMs: number;
  /** Time between two answers. */
  readonly wallMs: number;
  readonly answers: number;
}

export interface Row {
  readonly name: string;
}

/** Measures the event loop of a server or a relay from another process. */
export class LoopWatch {
  constructor(server: { readonly url: string; readonly pid: number });
  measure(work: () => Promise<void>): Promise<Measured>;
  close(): Promise<void>;
}

export const METHOD_REQUESTS: Readonly<Record<string, readonly { readonly name: string }[] | string>>;
export const ROWS: readonly Row[];
export const FLOODS: Readonly<Record<string, unknown>>;
export const MAX_REQUEST_BLOCK_MS: number;
export const MAX_FLOOD_BLOCK_MS: number;

export function measureRow(
  row: Row,
  stage: Stage,
): Promise<Measured & { readonly refused: readonly { readonly text: string }[] }>;
export function measureFlood(flood: unknown, stage: Stage): Promise<Measured>;
export function shortestBlock<M extends Measured>(limitMs: number, measure: () => Promise<M>): Promise<M>;
