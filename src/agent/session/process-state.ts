/** What is known of the end of a program. Each step keeps what an earlier one has told. */
export interface ProcessState {
  readonly hasExited: boolean;
  readonly exitCode: number | null;
  /** Nothing follows: the output is complete, or nothing more can be known. */
  readonly ended: boolean;
  /** Whether the output was seen to its end; false behind a failure. */
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

/** The first failure stays. */
export function failed(state: ProcessState, message: string): ProcessState {
  return { ...state, hasExited: true, ended: true, failureMessage: state.failureMessage ?? message };
}
