import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type DocBlock, docBlocks, outputPattern, parseConsole } from '../../scripts/doc-blocks.mjs';
import { endPrivateServer } from './private-server.ts';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/**
 * Runs what a page shows, in page order and in one temporary folder.
 *
 * - `console`: lines that begin with `$ ` are commands, the others their expected output, in which `…` stands for anything. A command
 *   without expected output must print nothing. With the flag `server` the last command keeps running until the end of the page; with
 *   `fails` the last command must exit with another code than 0. With `eventually` a command whose output differs is run again for some
 *   seconds: a program that was left running may not be ready yet.
 * - `ts`: a program that runs as `example.mjs`. A `text` block that follows it is its expected output.
 * - `file=NAME` on a block of another language writes the block to that file; on `ts` it names the program.
 * - `no-run` skips a block.
 *
 * Ports of the page are replaced by free ones, and `npm start --` by the built program.
 */
export async function runDocPage(page: string): Promise<void> {
  const runner = await DocRunner.create(page);
  try {
    const blocks = docBlocks(page).filter(({ flags }) => !flags.includes('no-run'));
    for (const [index, block] of blocks.entries()) {
      const next = blocks[index + 1];
      await runner.run(block, next?.language === 'text' ? next : null);
    }
  } finally {
    await runner.close();
  }
}

/** How long commands of `eventually` are run again. */
const RETRY_MS = 20_000;

/** Ports that pages may use. */
const PORTS = ['4000', '4443', '8080', '9000', '48123', '48124'];

class DocRunner {
  readonly #page: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'exec-server-docs-'));
  readonly #ports: ReadonlyMap<string, string>;
  readonly #servers: ChildProcess[] = [];

  /** Commands start their private server here. */
  get #runtime(): string {
    return join(this.#folder, 'run');
  }

  private constructor(page: string, ports: ReadonlyMap<string, string>) {
    this.#page = page;
    this.#ports = ports;
    mkdirSync(join(this.#folder, 'bin'));
    mkdirSync(join(this.#folder, 'home'));
    mkdirSync(this.#runtime);
    mkdirSync(join(this.#folder, 'node_modules'));
    symlinkSync(ROOT, join(this.#folder, 'node_modules', 'exec-server'));
    for (const name of ['examples', 'dist']) symlinkSync(join(ROOT, name), join(this.#folder, name));
    for (const name of ['@modelcontextprotocol', 'esbuild', '@koromix']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(this.#folder, 'node_modules', name));
    }
    const program = join(this.#folder, 'bin', 'exec-server');
    writeFileSync(
      program,
      `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'dist/bin/exec-server.cjs')} "$@"\n`,
    );
    chmodSync(program, 0o755);
  }

  static async create(page: string): Promise<DocRunner> {
    const free = await freePorts(PORTS.length);
    return new DocRunner(page, new Map(PORTS.map((port, index) => [port, free[index]!])));
  }

  async run(block: DocBlock, output: DocBlock | null): Promise<void> {
    const file = block.flags.find((flag) => flag.startsWith('file='))?.slice('file='.length);
    // Examples in TypeScript have no type annotations, so Node 20 runs them too. JavaScript with a file name is for a later block.
    const isProgram = block.language === 'ts' || (block.language === 'js' && file === undefined);
    if (block.language === 'console') await this.#runConsole(block);
    else if (isProgram) await this.#runProgram(block, file ?? 'example.mjs', output);
    else if (file !== undefined) writeFileSync(join(this.#folder, file), this.#adapt(block.text));
  }

  /** Ends the servers of the page and removes its folder. */
  async close(): Promise<void> {
    for (const server of this.#servers.reverse()) {
      if (server.exitCode === null && server.signalCode === null) {
        process.kill(-server.pid!, 'SIGTERM');
        await once(server, 'close');
      }
    }
    await endPrivateServer(this.#runtime);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #runConsole(block: DocBlock): Promise<void> {
    const commands = parseConsole(block.text);
    for (const [index, { command, expected }] of commands.entries()) {
      const isLast = index === commands.length - 1;
      const adapted = this.#adapt(command).replace(/^npm start( --)?/, 'exec-server');
      if (isLast && block.flags.includes('server')) {
        await this.#startServer(block, adapted, expected);
        continue;
      }
      const mustFail = isLast && block.flags.includes('fails');
      const deadline = performance.now() + (block.flags.includes('eventually') ? RETRY_MS : 0);
      for (;;) {
        // One pipe for both streams, as in a terminal: from two pipes the order would not be known.
        const { code, text } = await this.#collect('bash', ['-c', `exec 2>&1\n${adapted}`]);
        if ((code === 0) !== mustFail && this.#isShown(text, expected)) break;
        if (performance.now() < deadline) continue;
        if ((code === 0) === mustFail) this.#fail(block, `${command}\nexited with ${code}:\n${text}`);
        this.#compare(block, command, text, expected);
      }
    }
  }

  async #runProgram(block: DocBlock, file: string, output: DocBlock | null): Promise<void> {
    const program = join(this.#folder, file);
    writeFileSync(program, this.#adapt(block.text));
    const { code, text } = await this.#collect(process.execPath, [program]);
    if (code !== 0) this.#fail(block, `the program exited with ${code}:\n${text}`);
    if (output !== null) this.#compare(block, 'the program', text, output.text);
  }

  /** Waits for the expected output, or for the first line when none is shown. */
  async #startServer(block: DocBlock, command: string, expected: string): Promise<void> {
    const server = this.#spawn('bash', ['-c', command]);
    this.#servers.push(server);
    let text = '';
    // npm prints lines of its own, which the built program does not.
    const shown = this.#adapt(expected === '' ? '…\n' : expected).replace(/^…\n(?=.)/, '');
    const pattern = outputPattern(shown, 'begin');
    await new Promise<void>((resolve, reject) => {
      const look = (bytes: Buffer) => {
        text += bytes;
        if (pattern.test(text)) resolve();
      };
      server.stdout!.on('data', look);
      server.stderr!.on('data', look);
      server.on('close', () => reject(new Error('it ended')));
      setTimeout(() => reject(new Error('it did not print what the page shows')), 20_000).unref();
    }).catch(({ message }) => this.#fail(block, `${command}\n${message}:\n${text}`));
  }

  async #collect(program: string, args: string[]): Promise<{ code: number | null; text: string }> {
    const child = this.#spawn(program, args);
    let text = '';
    child.stdout!.on('data', (bytes) => (text += bytes));
    child.stderr!.on('data', (bytes) => (text += bytes));
    const timer = setTimeout(() => child.kill('SIGKILL'), 40_000);
    const [code] = await once(child, 'close');
    clearTimeout(timer);
    return { code, text };
  }

  #spawn(program: string, args: string[]): ChildProcess {
    const { PATH } = process.env;
    const home = join(this.#folder, 'home');
    return spawn(program, args, {
      cwd: this.#folder,
      env: {
        PATH: `${join(this.#folder, 'bin')}:${PATH}`,
        HOME: home,
        XDG_RUNTIME_DIR: this.#runtime,
        LANG: 'C.UTF-8',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own, which ends as a whole.
      detached: true,
    });
  }

  /** Whether a text is what the page shows. */
  #isShown(text: string, expected: string): boolean {
    return expected === '' ? text === '' : outputPattern(this.#adapt(expected), 'whole').test(text);
  }

  #compare(block: DocBlock, what: string, text: string, expected: string): void {
    if (this.#isShown(text, expected)) return;
    this.#fail(block, `${what}\nprinted:\n${text}\nthe page shows:\n${expected}`);
  }

  #adapt(text: string): string {
    return text.replace(/\b\d{4,5}\b/g, (number) => this.#ports.get(number) ?? number);
  }

  #fail(block: DocBlock, reason: string): never {
    throw new Error(`${this.#page}:${block.line}: ${reason}`);
  }
}

/** Ports below those that the system gives to others, so that nobody takes one before the page uses it. */
async function freePorts(count: number): Promise<string[]> {
  const ports = new Set<string>();
  while (ports.size < count) {
    const port = randomInt(10_000, 32_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await once(server.close(), 'close');
    ports.add(String(port));
  }
  return [...ports];
}
