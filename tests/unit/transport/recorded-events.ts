import type {
  BytesMessage,
  CloseReason,
  Transport,
  TransportEvents,
} from '../../../src/transport/transport.ts';

/** Records the events of a transport in order, and waits for more. */
export class RecordedEvents implements TransportEvents {
  readonly log: string[] = [];
  closeReason: CloseReason | null = null;
  #waiters: { readonly done: () => boolean; readonly resolve: () => void }[] = [];

  /** Opens the transport. */
  static of(transport: Transport): RecordedEvents {
    const events = new RecordedEvents();
    transport.open(events);
    return events;
  }

  get messages(): string[] {
    return this.log.filter((entry) => entry.startsWith('message ')).map((entry) => entry.slice(8));
  }

  count(entry: string): number {
    return this.log.filter((each) => each === entry).length;
  }

  message(text: string): void {
    this.#add(`message ${text}`);
  }

  bytesMessage({ text, bytes }: BytesMessage): void {
    this.#add(`bytes ${text} ${Buffer.from(bytes)}`);
  }

  undecodable(reason: string): void {
    this.#add(`undecodable ${reason}`);
  }

  drained(): void {
    this.#add('drained');
  }

  ended(): void {
    this.#add('ended');
  }

  closed(reason: CloseReason): void {
    this.closeReason = reason;
    this.#add('closed');
  }

  /** Resolves once `done` holds; checked after every event. */
  until(done: () => boolean): Promise<void> {
    if (done()) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ done, resolve }));
  }

  untilMessages(count: number): Promise<void> {
    return this.until(() => this.messages.length >= count);
  }

  async untilClosed(): Promise<CloseReason> {
    await this.until(() => this.closeReason !== null);
    return this.closeReason!;
  }

  #add(entry: string): void {
    this.log.push(entry);
    const ready = this.#waiters.filter(({ done }) => done());
    this.#waiters = this.#waiters.filter((waiter) => !ready.includes(waiter));
    for (const { resolve } of ready) resolve();
  }
}
