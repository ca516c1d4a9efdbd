/** The part of the budget that one message occupies. */
export interface UnfinishedMessage {
  add(bytes: number): void;
  /** The message is complete or dropped. May be called more than once. */
  end(): void;
}

/**
 * Limits the memory of the messages that have begun to arrive and are not complete, over all connections. When they
 * exceed the limit together, the oldest are refused: a client that starts messages without ending them has those. If
 * the connections belong to groups, like the tenants of a relay, the group with the most bytes loses its oldest.
 */
export class UnfinishedMessages {
  readonly #maxBytes: number;
  #bytes = 0;
  readonly #groups = new Map<unknown, Group>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Adds a message of a group. `refuse` is called at most once, and not after `end`. */
  begin(refuse: () => void, groupKey: unknown = null): UnfinishedMessage {
    let bytes = 0;
    const group = this.#groups.get(groupKey) ?? { bytes: 0, messages: new Map() };
    const count = (change: number) => {
      bytes += change;
      group.bytes += change;
      this.#bytes += change;
    };
    const message = {
      add: (added: number) => {
        if (!group.messages.has(message)) return;
        count(added);
        this.#enforce();
      },
      end: () => {
        if (!group.messages.delete(message)) return;
        count(-bytes);
        if (group.messages.size === 0) this.#groups.delete(groupKey);
      },
    };
    group.messages.set(message, refuse);
    this.#groups.set(groupKey, group);
    return message;
  }

  #enforce(): void {
    while (this.#bytes > this.#maxBytes) {
      const largest = [...this.#groups.values()].reduce((most, one) => (one.bytes > most.bytes ? one : most));
      const [[message, refuse]] = largest.messages as unknown as [[UnfinishedMessage, () => void]];
      message.end();
      refuse();
    }
  }
}

interface Group {
  bytes: number;
  /** How to refuse each message; oldest first. */
  readonly messages: Map<UnfinishedMessage, () => void>;
}
