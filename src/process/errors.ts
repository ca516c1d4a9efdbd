/** Why a request about a process cannot be carried out. The code is stable; the message is for people. */
export class ProcessError extends Error {
  override readonly name = 'ProcessError';
  readonly code: ProcessErrorCode;

  constructor(code: ProcessErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

export type ProcessErrorCode =
  | 'unknownProcess'
  | 'duplicateProcess'
  | 'tooManyProcesses'
  | 'startCancelled'
  | 'emptyArgv'
  | 'policyTooLarge'
  | 'stdinGone'
  | 'stdinFull'
  | 'notATerminal'
  | 'unknownSignal'
  | 'shuttingDown';
