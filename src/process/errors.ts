/** Whether the request itself is wrong, is not possible now, failed while it was carried out, or exceeds what the server can do now. */
export type ProcessErrorKind = 'invalid' | 'refused' | 'failed' | 'limit';

/** A request about a process that cannot be carried out. The code is stable; the message is for people. */
export class ProcessError extends Error {
  override readonly name = 'ProcessError';
  readonly code: ProcessErrorCode;

  constructor(code: ProcessErrorCode, message: string) {
    super(message);
    this.code = code;
  }

  get kind(): ProcessErrorKind {
    return KINDS[this.code];
  }
}

export type ProcessErrorCode =
  | 'unknownProcess'
  | 'duplicateProcess'
  | 'nameInUse'
  | 'stillRunning'
  | 'hasClosed'
  | 'tooManyProcesses'
  | 'startCancelled'
  | 'emptyArgv'
  | 'policyTooLarge'
  | 'invalidShellSnapshot'
  | 'stdinGone'
  | 'stdinFull'
  | 'notATerminal'
  | 'terminalTooLarge'
  | 'tooManyDrawings'
  | 'unknownSignal'
  | 'limitUnavailable'
  | 'shuttingDown';

const KINDS: Readonly<Record<ProcessErrorCode, ProcessErrorKind>> = {
  unknownProcess: 'refused',
  duplicateProcess: 'refused',
  nameInUse: 'refused',
  stillRunning: 'refused',
  hasClosed: 'refused',
  tooManyProcesses: 'refused',
  startCancelled: 'refused',
  shuttingDown: 'refused',
  notATerminal: 'refused',
  terminalTooLarge: 'refused',
  limitUnavailable: 'refused',
  emptyArgv: 'invalid',
  policyTooLarge: 'invalid',
  invalidShellSnapshot: 'invalid',
  unknownSignal: 'invalid',
  stdinGone: 'failed',
  stdinFull: 'failed',
  tooManyDrawings: 'limit',
};
