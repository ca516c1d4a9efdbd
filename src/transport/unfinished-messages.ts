/** The part of the budget that one message occupies. */
export interface UnfinishedMessage {
  add(bytes: number): void;
  /** The message is complete or dropped. May be called more than once. */
  end(): void;
}

/**
 * Limits the memory of the messages that have begun to arrive and are not complete, over all connections. When they
 * exceed the limit together, the oldest are refused: a client that starts messages without ending them has those.
 */
export class UnfinishedMessages {
  readonly #maxBytes: number;
  #bytes = 0;
  /** How to refuse each message; oldest first. */
  readonly #messages = new Map<UnfinishedMessage, () => void>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Adds a message. `refuse` is called at most once, and not after `end`. */
  begin(refuse: () => void): UnfinishedMessage {
    let bytes = 0;
    const message = {
      add: (count: number) => {
        if (!this.#messages.has(message)) return;
        bytes += count;
        this.#bytes += count;
        this.#enforce();
      },
      end: () => {
        if (this.#messages.delete(message)) this.#bytes -= bytes;
      },
    };
    this.#messages.set(message, refuse);
    return message;
  }

  #enforce(): void {
    while (this.#bytes > this.#maxBytes) {
      const [[message, refuse]] = this.#messages as unknown as [[UnfinishedMessage, () => void]];
      message.end();
      refuse();
    }
  }
}
