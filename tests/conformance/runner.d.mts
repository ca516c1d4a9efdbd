import type { RunningServer } from '../../scripts/reference.mjs';

export type ServerKind = 'reference' | 'exec-server';
export type Step = Readonly<Record<string, unknown>>;

export interface Case {
  readonly name: string;
  readonly steps: readonly Step[];
  readonly area?: string;
  readonly about?: string;
  readonly connections?: Readonly<Record<string, 'open' | 'ready'>>;
  readonly server?: { readonly args: readonly string[]; readonly home?: Readonly<Record<string, string>> };
  readonly needs?: readonly string[];
  readonly only?: ServerKind;
  readonly deviation?: string | readonly string[];
  readonly serial?: boolean;
  readonly slow?: boolean;
  readonly variables?: Readonly<Record<string, unknown>>;
}

export interface Options {
  readonly url: string | null;
  readonly server: ServerKind;
  readonly launch?: (args?: string[], files?: Readonly<Record<string, string>>) => Promise<RunningServer>;
  readonly facts?: Readonly<Record<string, boolean>>;
  readonly deadlineMs?: number;
}

export interface Failure {
  readonly step: string;
  readonly message: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

export type Result =
  | { readonly name: string; readonly status: 'passed' }
  | { readonly name: string; readonly status: 'skipped'; readonly reason: string }
  | {
      readonly name: string;
      readonly status: 'failed';
      readonly failure: Failure;
      readonly transcript: readonly string[];
    };

export declare function runCase(testCase: Case, options: Options): Promise<Result>;
export declare function runCases(
  cases: readonly Case[],
  options: Options & { readonly parallel?: number; readonly onResult?: (result: Result) => void },
): Promise<Result[]>;
export declare function formatFailure(result: { readonly name: string; readonly failure: Failure }): string;
export declare function stepFor(step: Step, server: ServerKind): Step | undefined;
