import type { Case, Result } from './runner.mjs';

export declare function unverifiedCases(cases: readonly Case[]): Case[];
export declare function recordVerified(cases: readonly Case[], results: readonly Result[]): void;
