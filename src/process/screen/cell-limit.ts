import type { IUnicodeVersionProvider, Terminal } from '@xterm/headless';
import { MAX_CELL_CHARACTERS } from './limits.ts';

/** What loads the widths of characters into a terminal. */
interface WidthAddon {
  activate(terminal: Terminal): void;
}

/** The library keeps the width and whether a character joins the one before in these bits, and leaves the others to the provider. */
const LIBRARY_BITS = 3;
const JOINS = 1;
const NARROW = 1 << 1;

/**
 * Gives a terminal the widths of an addon, and puts at most as many characters into one cell as the limit allows. The next combining
 * character begins a cell of its own. Without this, a program can fill one cell with any number of them, and each takes longer than the
 * one before.
 */
export function limitCells(terminal: Pick<Terminal, 'unicode'>, addon: WidthAddon): void {
  const register = (widths: IUnicodeVersionProvider) => {
    const version = `${widths.version}-limited`;
    terminal.unicode.register({
      version,
      wcwidth: (codePoint) => widths.wcwidth(codePoint),
      charProperties(codePoint, preceding) {
        const properties = widths.charProperties(codePoint, preceding);
        if ((properties & JOINS) === 0) return properties;
        const joined = (preceding >> LIBRARY_BITS) + 1;
        return joined < MAX_CELL_CHARACTERS ? properties | (joined << LIBRARY_BITS) : NARROW;
      },
    });
    terminal.unicode.activeVersion = version;
  };
  addon.activate({ unicode: { register } } as unknown as Terminal);
}
