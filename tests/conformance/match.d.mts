export interface Mismatch {
  readonly path: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

export declare function mismatch(pattern: unknown, actual: unknown, path?: string): Mismatch | undefined;
export declare function patternProblems(pattern: unknown): string[];
export declare function isCanonicalBase64(text: unknown): boolean;
