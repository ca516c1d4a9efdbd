import { isObject } from '../base/is-object.ts';

/** Counts the requests of a client that its server has not answered, from the messages that pass. */
export class UnansweredRequests {
  #count = 0;
  #changed: () => void = () => {};

  /** The client has sent a message. */
  sent(text: string): void {
    if (needsAnswer(text)) this.#count++;
  }

  /** The server has sent a message. */
  received(text: string): void {
    if (this.#count === 0 || !ANSWER.test(text)) return;
    this.#count--;
    this.#changed();
  }

  /** How many there are. */
  get count(): number {
    return this.#count;
  }

  /** Resolves when every request is answered, or when no answer has come for so long. */
  allAnswered(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      this.#changed = () => {
        clearTimeout(timer);
        if (this.#count === 0) resolve();
        else timer = setTimeout(resolve, timeoutMs);
      };
      this.#changed();
    });
  }
}

/** Whether the server answers a message: a request, and a text that is no message. Most requests are recognised by their first members. */
function needsAnswer(text: string): boolean {
  if (REQUEST.test(text)) return true;
  try {
    const message: unknown = JSON.parse(text);
    return !isObject(message) || ('id' in message && 'method' in message);
  } catch {
    return true;
  }
}

const REQUEST = /^\{"id":(?:-?\d+|"[^"\\]*"),"method":/;
/** How exec-server begins each answer: a result with its id, an error with the error. */
const ANSWER = /^\{(?:"error":|"id":(?:null|-?[\d.eE+-]+|"(?:[^"\\]|\\.)*"),"result":)/;
