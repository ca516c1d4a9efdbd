import { cutToWidth, textWidth, visible } from './terminal-text.ts';

/** How a table looks. */
interface TableStyle {
  /** The last column is cut so that a line has at most so many columns. Default: no limit. */
  readonly width?: number;
  /** Adds colours to a cell. It must not change the width. Default: none. */
  readonly colour?: (cell: string, row: number, column: number) => string;
}

/** Aligns the columns of a table. Every row has as many cells as the first. Control characters in a cell become escapes. */
export function table(
  given: readonly (readonly string[])[],
  { width = Number.POSITIVE_INFINITY, colour = (cell) => cell }: TableStyle = {},
): string {
  const rows = given.map((cells) => cells.map(visible));
  const last = rows[0]!.length - 1;
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => textWidth(row[column]!))));
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, 0);
  const lastWidth = Math.max(MIN_LAST_COLUMN, width - before);
  const line = (cells: readonly string[], row: number): string => {
    const shown = cells.map((cell, column) => (column === last ? cutToWidth(cell, lastWidth) : cell));
    // Nothing follows the last cell that is not empty.
    const end = shown.findLastIndex((cell) => cell !== '');
    return shown
      .slice(0, end + 1)
      .map((cell, column) => {
        const padding = column === end ? '' : ' '.repeat(widths[column]! - textWidth(cell));
        return `${colour(cell, row, column)}${padding}`;
      })
      .join(GAP);
  };
  return rows.map((cells, row) => `${line(cells, row)}\n`).join('');
}

const GAP = '  ';

/** A narrower last column says nothing. The terminal wraps the line instead. */
const MIN_LAST_COLUMN = 12;
