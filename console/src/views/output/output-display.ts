import { printable } from '../../base/format.ts';
import { Store } from '../../base/store.ts';
import type { ProcessDisplay } from '../../connection/process-session.ts';

export interface OutputLine {
  readonly stream: 'stdout' | 'stderr' | 'gap';
  readonly text: string;
  readonly number: number;
}

const MAX_LINES = 20_000;
const MAX_LINE_LENGTH = 4000;
/** What may arrive between two frames before the program waits. */
const MAX_UNSHOWN_BYTES = 512 * 1024;

/** The output of a process without a terminal, as lines. It keeps the latest ones. */
export class OutputDisplay implements ProcessDisplay {
  /** Counts changes. The lines themselves are too many to copy for each. */
  readonly revision = new Store(0);
  readonly lines: OutputLine[] = [];
  #dropped = 0;
  #count = 0;
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  /** The unfinished last line of each stream. */
  readonly #open: { stdout: OutputLine | null; stderr: OutputLine | null } = { stdout: null, stderr: null };
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
    const text = withoutEscapes(this.#decoders[name].decode(bytes, { stream: true }));
    const parts = text.split('\n');
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
    this.#add({ stream: 'gap', text, number: ++this.#count });
    this.#changed();
  }

  close(): void {
    this.lines.length = 0;
  }

  #append(stream: 'stdout' | 'stderr', part: string): void {
    const open = this.#open[stream];
    if (open === null) {
      this.#open[stream] = this.#add({ stream, text: shown(part), number: ++this.#count });
      return;
    }
    const longer = { ...open, text: shown(open.text + part) };
    const index = this.lines.lastIndexOf(open);
    if (index >= 0) this.lines[index] = longer;
    this.#open[stream] = longer;
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

function shown(text: string): string {
  // A carriage return starts the line again, as progress displays do.
  const last = text.replace(/\r$/, '').split('\r').at(-1)!;
  return last.length > MAX_LINE_LENGTH ? `${last.slice(0, MAX_LINE_LENGTH)}…` : last;
}

/** Removes escape sequences: colours, titles, hyperlinks. Carriage returns stay for {@link shown}. */
function withoutEscapes(text: string): string {
  const plain = text.replaceAll(
    /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g,
    '',
  );
  return plain.split('\r').map(printable).join('\r');
}
