/**
 * What was found out about one thing. `failed`: a sandbox cannot be relied on. `missing`: something works less well or not at all, but
 * nothing is less safe. `untested`: it could not be tried.
 */
export type CheckState = 'ok' | 'failed' | 'missing' | 'untested';

export interface Check {
  readonly name: string;
  readonly state: CheckState;
  readonly detail: string;
  /** What to do about it; null when nothing is to be done, or nobody knows. */
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
