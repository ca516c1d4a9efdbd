import { fileURLToPath } from 'node:url';
import { startServer } from '../../scripts/reference.mjs';
import { Fixture } from './fixture.mjs';
import { LoopWatch } from './loop-watch.mjs';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

/** A server with the documented limits, with everything that it can record, and with a measuring client. */
export class Stage {
  fixture;
  url;
  watch;
  #server;
  #log = '';

  static async open() {
    const stage = new Stage();
    stage.fixture = await Fixture.create();
    try {
      await stage.#start();
      return stage;
    } catch (error) {
      await stage.fixture.remove();
      throw error;
    }
  }

  /** The errors that the server has logged. */
  get errors() {
    return this.#log.split('\n').filter((line) => line.includes('"level":"error"'));
  }

  async close() {
    await this.watch.close();
    await this.#server.stop();
    await this.fixture.remove();
  }

  async #start() {
    const { folder, home } = this.fixture;
    const flags = ['--audit-log', `${folder}/audit`, '--log-level', 'debug', '--metrics'];
    const env = { HOME: home, CODEX_HOME: undefined };
    this.#server = await startServer(process.execPath, [BIN, ...flags], { env });
    this.#server.child.stderr.on('data', (text) => {
      this.#log = `${this.#log}${text}`.slice(-256 * 1024);
    });
    this.url = this.#server.url;
    this.watch = new LoopWatch(this.#server);
  }
}
