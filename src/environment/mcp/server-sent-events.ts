import { LineSplitter } from '../../base/line-splitter.ts';

/** One event of a `text/event-stream`. */
export interface ServerSentEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
  /** How long to wait before the stream is opened again, when the server says so. */
  readonly retryMs: number | null;
}

/** The events of a stream as they come; one that is cut off is dropped. Throws when an event is larger than the limit. */
export async function* serverSentEvents(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<ServerSentEvent> {
  const lines = new LineSplitter(maxBytes);
  let fields = new EventFields(maxBytes);
  for await (const bytes of body) {
    for (const line of lines.push(bytes)) {
      if (line.length > 0) {
        fields.add(line.toString());
        continue;
      }
      if (fields.any) yield fields.event;
      fields = new EventFields(maxBytes);
    }
  }
}

class EventFields {
  readonly #maxBytes: number;
  readonly #data: string[] = [];
  #size = 0;
  #id: string | null = null;
  #event = 'message';
  #retryMs: number | null = null;
  any = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(line: string): void {
    const colon = line.indexOf(':');
    // A comment keeps the connection alive.
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    this.any = true;
    if (name === 'data') this.#addData(value);
    else if (name === 'event') this.#event = value || 'message';
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    else if (name === 'retry' && /^\d+$/.test(value)) this.#retryMs = Number(value);
  }

  get event(): ServerSentEvent {
    return { id: this.#id, event: this.#event, data: this.#data.join('\n'), retryMs: this.#retryMs };
  }

  #addData(value: string): void {
    // An empty line takes room too.
    this.#size += value.length + 1;
    if (this.#size > this.#maxBytes) throw new Error(`an event has more than ${this.#maxBytes} bytes`);
    this.#data.push(value);
  }
}
