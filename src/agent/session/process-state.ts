/** The end of a program as far as it is known. Later events do not overwrite earlier ones. */
export interface ProcessState {
  readonly hasExited: boolean;
  readonly exitCode: number | null;
  /** Whether the output is complete or the program was lost. */
  readonly ended: boolean;
  /** Whether the output is complete; false after a failure. */
  readonly closed: boolean;
  readonly failureMessage: string | null;
  readonly sandboxDenied: boolean;
}

export const RUNNING: ProcessState = {
  hasExited: false,
  exitCode: null,
  ended: false,
  closed: false,
  failureMessage: null,
  sandboxDenied: false,
};

export function exited(state: ProcessState, exitCode: number, sandboxDenied: boolean): ProcessState {
  return { ...state, hasExited: true, exitCode, sandboxDenied: state.sandboxDenied || sandboxDenied };
}

export function closed(state: ProcessState): ProcessState {
  return { ...state, hasExited: true, ended: true, closed: true };
}

/** Keeps the first failure. */
export function failed(state: ProcessState, message: string): ProcessState {
  return { ...state, hasExited: true, ended: true, failureMessage: state.failureMessage ?? message };
}
