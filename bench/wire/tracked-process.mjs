import { createHash } from 'node:crypto';

/** How far apart reordered events may be: an older gap is a loss. */
const REORDER_GRACE_MS = 2_000;

/**
 * The events that a client has received of one process. They are complete when `closed` and every sequence number before it have
 * arrived exactly once. They may arrive in any order, as they do from the reference.
 */
export class TrackedProcess {
  id;
  bytes = 0;
  chunks = 0;
  exitCode = null;
  /** Resolves when the process is complete; rejects when an event is missing or repeated, or the connection ended. */
  closed;
  /** Called for every chunk with its size, before anything else happens. */
  onOutput = null;
  #next = 1;
  #early = new Map();
  #closedSeq = null;
  #hash;
  #resolve;
  #reject;

  /** @param {string} id @param {{ digest?: boolean }} [options] */
  constructor(id, { digest = false } = {}) {
    this.id = id;
    this.#hash = digest ? createHash('sha256') : null;
    this.closed = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.closed.catch(() => {});
  }

  /** The output is decoded only where a digest or the text is needed. */
  get wantsBytes() {
    return this.#hash !== null || this.onBytes !== null;
  }

  /** Called with the decoded bytes of every chunk in order. */
  onBytes = null;

  /** @param {number} seq @param {number} byteCount @param {Buffer | null} bytes Null unless wanted. */
  output(seq, byteCount, bytes) {
    this.bytes += byteCount;
    this.chunks++;
    this.onOutput?.(byteCount);
    this.#event(seq, bytes);
  }

  exited(seq, exitCode) {
    this.exitCode = exitCode;
    this.#event(seq, null);
  }

  ended(seq) {
    this.#closedSeq = seq;
    this.#event(seq, null);
    if (this.#next <= seq) {
      setTimeout(() => this.fail(new Error(this.#missing())), REORDER_GRACE_MS).unref();
    }
  }

  /** A client that does not view another one's process must get every event. */
  skipped(fromSeq) {
    this.fail(new Error(`process ${this.id}: event ${fromSeq} was skipped`));
  }

  fail(error) {
    this.#reject(error);
  }

  /**
   * Waits for the end and compares it with the expected result of the program.
   * @param {{ bytes?: number | null, exitCode?: number }} [expected]
   */
  async finish({ bytes = null, exitCode = 0 } = {}) {
    await this.closed;
    if (bytes !== null && this.bytes !== bytes) {
      throw new Error(`process ${this.id}: ${this.bytes} bytes of ${bytes} arrived`);
    }
    if (this.exitCode !== exitCode) {
      throw new Error(`process ${this.id}: exit code ${this.exitCode} instead of ${exitCode}`);
    }
  }

  /** SHA-256 of the whole output. Call it once, after the end. */
  digest() {
    return this.#hash.digest('hex');
  }

  #event(seq, bytes) {
    if (seq < this.#next || this.#early.has(seq)) {
      this.fail(new Error(`process ${this.id}: number ${seq} came twice`));
      return;
    }
    if (seq !== this.#next) {
      this.#early.set(seq, bytes);
      return;
    }
    this.#accept(bytes);
    while (this.#early.size > 0 && this.#early.has(this.#next)) {
      const waiting = this.#early.get(this.#next);
      this.#early.delete(this.#next);
      this.#accept(waiting);
    }
    if (this.#closedSeq === null || this.#next <= this.#closedSeq) return;
    if (this.#early.size > 0) this.fail(new Error(`process ${this.id}: events behind its end`));
    else this.#resolve(this);
  }

  #accept(bytes) {
    this.#next++;
    if (bytes === null) return;
    this.#hash?.update(bytes);
    this.onBytes?.(bytes);
  }

  #missing() {
    return `process ${this.id}: event ${this.#next} of ${this.#closedSeq} never arrived`;
  }
}
