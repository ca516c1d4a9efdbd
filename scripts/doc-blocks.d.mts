/** A fenced block of a Markdown page. `flags` are the words after the language. */
export interface DocBlock {
  readonly language: string;
  readonly flags: readonly string[];
  readonly text: string;
  readonly line: number;
}

export interface DocCommand {
  readonly command: string;
  readonly expected: string;
}

export function docBlocks(page: string): DocBlock[];
export function parseConsole(text: string): DocCommand[];
export function outputPattern(expected: string, extent: 'begin' | 'whole'): RegExp;
