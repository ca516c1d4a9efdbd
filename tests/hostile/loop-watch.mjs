import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const OBSERVER = fileURLToPath(new URL('./observer.mjs', import.meta.url));

/** Measures from another process how long requests of other clients block the event loop of a server. */
export class LoopWatch {
  #observer;
  #exited;

  /** @param {{ url: string, pid: number }} server */
  constructor({ url, pid }) {
    this.#observer = fork(OBSERVER, [url, String(pid)]);
    this.#exited = new Promise((resolve) => this.#observer.once('exit', resolve));
  }

  /**
   * The longest block while `work` ran. The last measured answer was requested after `work` was done.
   * @param {() => Promise<void>} work
   * @returns {Promise<{ blockMs: number, stallMs: number, wallMs: number, answers: number }>}
   */
  async measure(work) {
    await this.#ask('begin');
    try {
      await work();
    } catch (error) {
      await this.#ask('end');
      throw error;
    }
    return this.#ask('end');
  }

  async close() {
    if (this.#observer.connected) this.#observer.disconnect();
    await this.#exited;
  }

  async #ask(message) {
    const answer = new Promise((resolve) => this.#observer.once('message', resolve));
    const lost = this.#exited.then(() => {
      throw new Error('the observer lost its connection to the server');
    });
    if (this.#observer.connected) this.#observer.send(message);
    return Promise.race([answer, lost]);
  }
}
