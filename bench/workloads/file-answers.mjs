/**
 * Receives a response with one large base64 member. Its JSON frame and its length are always checked, and the base64 text where it is
 * known; any difference makes it wrong.
 * @implements {import('../wire/connection.mjs').AnswerSink}
 */
class Base64Sink {
  #before;
  #body;
  #bodyBytes;
  #after;
  #at = 0;

  /**
   * @param {string} before What the answer says in front of the base64 text.
   * @param {Buffer | number} body The base64 text, or only its length.
   * @param {string} after
   */
  constructor(before, body, after) {
    this.#before = Buffer.from(before);
    this.#body = typeof body === 'number' ? null : body;
    this.#bodyBytes = typeof body === 'number' ? body : body.length;
    this.#after = Buffer.from(after);
  }

  take(bytes, start, end) {
    const bodyAt = this.#before.length;
    const afterAt = bodyAt + this.#bodyBytes;
    let from = start;
    if (this.#at < bodyAt) from = this.#compare(bytes, from, end, this.#before, 0);
    if (from < end && this.#at < afterAt) from = this.#takeBody(bytes, from, end, bodyAt, afterAt);
    if (from < end) from = this.#compare(bytes, from, end, this.#after, afterAt);
    if (from < end) throw new Error(`the answer is longer than ${afterAt + this.#after.length} bytes`);
  }

  end() {
    const whole = this.#before.length + this.#bodyBytes + this.#after.length;
    if (this.#at !== whole) throw new Error(`${this.#at} bytes of an answer of ${whole} arrived`);
  }

  #takeBody(bytes, from, end, bodyAt, afterAt) {
    if (this.#body !== null) return this.#compare(bytes, from, end, this.#body, bodyAt);
    const taken = Math.min(end - from, afterAt - this.#at);
    this.#at += taken;
    return from + taken;
  }

  /** Compares the available part of `expected`, which begins at `expectedAt` of the response; returns where it ended. */
  #compare(bytes, from, end, expected, expectedAt) {
    const at = this.#at - expectedAt;
    const taken = Math.min(end - from, expected.length - at);
    if (bytes.compare(expected, at, at + taken, from, from + taken) !== 0) {
      const got = bytes.latin1Slice(from, Math.min(from + taken, from + 80));
      throw new Error(`unexpected answer at byte ${this.#at}: ${got}`);
    }
    this.#at += taken;
    return from + taken;
  }
}

/** How many characters base64 takes for so many bytes. @param {number} bytes */
export const base64Length = (bytes) => Math.ceil(bytes / 3) * 4;

/** @param {Uint8Array} bytes */
export const base64Of = (bytes) => Buffer.from(Buffer.from(bytes).toString('base64'), 'latin1');

/** The answer of `fs/readFile`. @param {Buffer | number} body */
export const fileAnswer = (body) => new Base64Sink('"result":{"dataBase64":"', body, '"}}');

/** The answer of `fs/readBlock` in the middle of a file. @param {Buffer | number} body */
export const blockAnswer = (body) => new Base64Sink('"result":{"chunk":"', body, '","eof":false}}');
