/**
 * The result of one check. `failed`: do not rely on the sandbox. `missing`: a feature does not work, but nothing is less safe. `untested`:
 * it could not be tried.
 */
export type CheckState = 'ok' | 'failed' | 'missing' | 'untested';

export interface Check {
  readonly name: string;
  readonly state: CheckState;
  readonly detail: string;
  /** How to fix it. Null when there is nothing to fix, or no fix is known. */
  readonly fix: string | null;
}

export function ok(name: string, detail: string): Check {
  return { name, state: 'ok', detail, fix: null };
}

export function failed(name: string, detail: string, fix: string | null): Check {
  return { name, state: 'failed', detail, fix };
}

export function missing(name: string, detail: string, fix: string | null): Check {
  return { name, state: 'missing', detail, fix };
}

export function untested(name: string, detail: string): Check {
  return { name, state: 'untested', detail, fix: null };
}
