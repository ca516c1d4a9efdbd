import type { RunningServer } from '../../scripts/reference.mjs';

export declare const WEBSOCKET: string[];
export declare function startReferenceForCases(
  args?: string[],
  files?: Readonly<Record<string, string>>,
): Promise<RunningServer>;
export declare function startOurs(
  args?: string[],
  files?: Readonly<Record<string, string>>,
): Promise<RunningServer>;
export declare function learnFacts(url: string | null): Promise<Record<string, boolean>>;
