import type { Case } from './runner.mjs';

export interface Deviation {
  readonly reason: string;
  readonly decision: string;
}

export declare function loadCases(): Case[];
export declare function loadDeviations(): Record<string, Deviation>;
export declare function caseProblems(
  cases: readonly Case[],
  deviations: Readonly<Record<string, Deviation>>,
): string[];
