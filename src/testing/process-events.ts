/** One event of a process. */
export interface ProcessEvent {
  readonly seq: number;
  readonly kind: 'output' | 'exited' | 'closed';
  readonly stream: string | null;
  readonly bytes: Buffer;
  readonly exitCode: number | null;
}

/**
 * The events of one process, in any arrival order. A repeated sequence number with the same content, as after a
 * resume, counts once; so does the end of a chunk whose beginning the server has evicted. With different content it
 * is an error.
 */
export class ProcessEvents {
  readonly processId: string;
  readonly #bySeq = new Map<number, ProcessEvent>();
  #closedSeq: number | null = null;
  /** Number of events that arrived more than once. */
  repeated = 0;

  constructor(processId: string) {
    this.processId = processId;
  }

  /** Adds a `process/*` notification. Ignores others. */
  add(method: string, params: Readonly<Record<string, unknown>>): void {
    const kind = KINDS.get(method);
    if (kind === undefined) return;
    this.insert({
      seq: params.seq as number,
      kind,
      stream: (params.stream as string | undefined) ?? null,
      bytes: Buffer.from((params.chunk as string | undefined) ?? '', 'base64'),
      exitCode: (params.exitCode as number | undefined) ?? null,
    });
  }

  /** Adds the chunks of a `process/read` result. */
  addChunks(chunks: readonly { seq: number; stream: string; chunk: string }[]): void {
    for (const { seq, stream, chunk } of chunks) {
      this.insert({ seq, kind: 'output', stream, bytes: Buffer.from(chunk, 'base64'), exitCode: null });
    }
  }

  insert(event: ProcessEvent): void {
    const known = this.#bySeq.get(event.seq);
    if (known !== undefined) {
      this.repeated++;
      if (known.kind !== event.kind || !endsWith(known.bytes, event.bytes)) {
        throw new Error(`process ${this.processId}: two different events have seq ${event.seq}`);
      }
      return;
    }
    this.#bySeq.set(event.seq, event);
    if (event.kind === 'closed') this.#closedSeq = event.seq;
  }

  /** Whether `closed` and everything before it has arrived. */
  get complete(): boolean {
    return this.#closedSeq !== null && this.#bySeq.size === this.#closedSeq;
  }

  /** The highest sequence number up to which nothing is missing. */
  get contiguousSeq(): number {
    let seq = 0;
    while (this.#bySeq.has(seq + 1)) seq++;
    return seq;
  }

  /** The events in sequence order. */
  get events(): ProcessEvent[] {
    return [...this.#bySeq.values()].sort((a, b) => a.seq - b.seq);
  }

  /** The bytes of one stream, or of all streams. */
  bytes(stream?: string): Buffer {
    const output = this.events.filter((event) => stream === undefined || event.stream === stream);
    return Buffer.concat(output.map((event) => event.bytes));
  }

  text(stream?: string): string {
    return this.bytes(stream).toString();
  }

  get exitCode(): number | null {
    return this.events.find((event) => event.kind === 'exited')?.exitCode ?? null;
  }
}

const KINDS = new Map<string, ProcessEvent['kind']>([
  ['process/output', 'output'],
  ['process/exited', 'exited'],
  ['process/closed', 'closed'],
]);

function endsWith(bytes: Buffer, end: Buffer): boolean {
  return end.length <= bytes.length && bytes.subarray(bytes.length - end.length).equals(end);
}
