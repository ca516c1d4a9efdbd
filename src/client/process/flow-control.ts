import type { LogWindow } from './event-log.ts';

/**
 * Reports to the server which events of a process this client has used: those that every handle of the process has. The server lets the
 * program continue then. It ignores the reports of a client that does not drive. So this client reports in every role: it may learn late
 * that it drives, and the program must not wait for that.
 */
export class FlowControl {
  /** Null when nothing is reported: the server has no flow control, or the start of the process asked for none. */
  readonly windowBytes: number | null;
  /** The last event that each handle has used. */
  readonly #handles = new Map<object, number>();
  #report: (seq: number) => void = () => {};
  #reported = 0;

  constructor(windowBytes: number | null) {
    this.windowBytes = windowBytes;
  }

  /** Adds a handle that begins after an event. Returns the window of its log. */
  join(handle: object, afterSeq: number, report: (seq: number) => void): LogWindow | null {
    if (this.windowBytes === null) return null;
    this.#handles.set(handle, afterSeq);
    this.#report = report;
    const consumed = (seq: number) => {
      if (!this.#handles.has(handle)) return;
      this.#handles.set(handle, seq);
      this.#update();
    };
    return { windowBytes: this.windowBytes, consumed };
  }

  /** Removes a handle that no longer follows the process. */
  leave(handle: object): void {
    if (this.#handles.delete(handle)) this.#update();
  }

  /** Reports what is new. */
  #update(): void {
    if (this.#handles.size === 0) return;
    const seq = Math.min(...this.#handles.values());
    if (seq <= this.#reported) return;
    this.#reported = seq;
    this.#report(seq);
  }
}
