import type { Terminal } from '@xterm/headless';

/**
 * Decides whether a terminal that missed output shows the right screen again: it does once a program has erased the whole screen and
 * moved the cursor to a position.
 */
export class ContentProof {
  #content = false;
  #cursor = false;

  constructor(terminal: Terminal) {
    const { parser, buffer } = terminal;
    const onMove = () => {
      this.#cursor = true;
      return false;
    };
    parser.registerCsiHandler({ final: 'H' }, onMove);
    parser.registerCsiHandler({ final: 'f' }, onMove);
    parser.registerCsiHandler({ final: 'J' }, (params) => {
      const kind = params[0] ?? 0;
      const isHome = this.#cursor && buffer.active.cursorX === 0 && buffer.active.cursorY === 0;
      if (kind === 2 || (kind === 0 && isHome)) this.#content = true;
      return false;
    });
    parser.registerEscHandler({ final: 'c' }, () => {
      this.#content = this.#cursor = true;
      return false;
    });
    // The alternate screen is empty when it becomes visible. The main screen is as it was left.
    parser.registerCsiHandler({ prefix: '?', final: 'h' }, (params) => {
      if (switchesScreen(params) && buffer.active.type === 'normal') this.#content = true;
      return false;
    });
    parser.registerCsiHandler({ prefix: '?', final: 'l' }, (params) => {
      if (switchesScreen(params) && buffer.active.type === 'alternate') this.#content = this.#cursor = false;
      return false;
    });
  }

  /** Output was missed again. */
  restart(): void {
    this.#content = this.#cursor = false;
  }

  get proven(): boolean {
    return this.#content && this.#cursor;
  }
}

function switchesScreen(params: readonly (number | number[])[]): boolean {
  return params.some((mode) => mode === 47 || mode === 1047 || mode === 1049);
}
