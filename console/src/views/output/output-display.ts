import { Store } from '../../base/store.ts';
import type { ProcessDisplay } from '../../connection/process-session.ts';
import { LineText, OutputDecoder } from './output-text.ts';

export interface OutputLine {
  readonly stream: 'stdout' | 'stderr' | 'gap';
  readonly text: string;
  readonly number: number;
}

const MAX_LINES = 20_000;
/** What may arrive between two frames before the program waits. */
const MAX_UNSHOWN_BYTES = 512 * 1024;

interface OpenLine {
  readonly content: LineText;
  line: OutputLine;
}

/** The output of a process without a terminal, as lines. It keeps the latest ones. */
export class OutputDisplay implements ProcessDisplay {
  /** Counts changes. The lines themselves are too many to copy for each. */
  readonly revision = new Store(0);
  readonly lines: OutputLine[] = [];
  #dropped = 0;
  #count = 0;
  readonly #decoders = { stdout: new OutputDecoder(), stderr: new OutputDecoder() };
  /** The unfinished last line of each stream. */
  readonly #open: { stdout: OpenLine | null; stderr: OpenLine | null } = { stdout: null, stderr: null };
  readonly #waiting: (() => void)[] = [];
  #unshown = 0;
  #scheduled = false;

  /** How many lines are no longer kept. */
  get dropped(): number {
    return this.#dropped;
  }

  async screen(): Promise<void> {}

  output(bytes: Uint8Array, stream: 'stdout' | 'stderr' | 'pty'): Promise<void> | void {
    const name = stream === 'stderr' ? 'stderr' : 'stdout';
    const parts = this.#decoders[name].decode(bytes).split('\n');
    for (const [index, part] of parts.entries()) {
      const isLast = index === parts.length - 1;
      if (part !== '' || !isLast) this.#append(name, part);
      if (!isLast) this.#open[name] = null;
    }
    this.#trim();
    this.#changed();
    this.#unshown += bytes.length;
    // Browsers slow hidden pages down, and the program must not wait for that.
    if (this.#unshown < MAX_UNSHOWN_BYTES || document.hidden) return;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  gap(text: string): void {
    this.#open.stdout = null;
    this.#open.stderr = null;
    this.#decoders.stdout.skip();
    this.#decoders.stderr.skip();
    this.#add({ stream: 'gap', text, number: ++this.#count });
    this.#changed();
  }

  close(): void {
    this.lines.length = 0;
  }

  #append(stream: 'stdout' | 'stderr', part: string): void {
    const open = this.#open[stream];
    if (open === null) {
      const content = new LineText();
      content.append(part);
      const line = this.#add({ stream, text: content.text, number: ++this.#count });
      this.#open[stream] = { content, line };
      return;
    }
    open.content.append(part);
    const { text } = open.content;
    if (text === open.line.text) return;
    const index = this.lines.lastIndexOf(open.line);
    open.line = { ...open.line, text };
    if (index >= 0) this.lines[index] = open.line;
  }

  #add(line: OutputLine): OutputLine {
    this.lines.push(line);
    return line;
  }

  #trim(): void {
    if (this.lines.length <= MAX_LINES * 1.1) return;
    const excess = this.lines.length - MAX_LINES;
    this.lines.splice(0, excess);
    this.#dropped += excess;
  }

  /** Renders at most once per frame. Where there are no frames, after a moment. */
  #changed(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const done = () => {
      if (!this.#scheduled) return;
      this.#scheduled = false;
      this.#unshown = 0;
      this.revision.set(this.revision.value + 1);
      for (const resolve of this.#waiting.splice(0)) resolve();
    };
    requestAnimationFrame(done);
    setTimeout(done, 50);
  }
}
