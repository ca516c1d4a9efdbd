import type { Case, Result } from './runner.mjs';

export declare function unprovenCases(cases: readonly Case[]): Case[];
export declare function recordProof(cases: readonly Case[], results: readonly Result[]): void;
