/** A second Ctrl-C within this time terminates the program and everything it has started. */
export const SECOND_INTERRUPT_MS = 2_000;
/** How long a program may take to end after SIGHUP, SIGTERM or SIGPIPE when nothing will read its output any more. */
export const LEAVE_GRACE_MS = 2_000;
/** How long a program that was left waits for a reader of its last output. */
export const LEFT_FLUSH_MS = 1_000;
/** How long the server may take to say whether a program has exited. */
export const EXIT_ANSWER_MS = 2_000;
/** How long the end of a terminated program is waited for. */
export const TERMINATED_WAIT_MS = 5_000;
/** A shorter loss of the connection is not reported. */
export const REPORT_LOSS_MS = 300;
/** Writes to stdin that wait for their answer: enough to use a line with a long round trip. */
export const MAX_WRITES = 16;
/** The longest sequence of the terminal that is recognised when it is split between two chunks. */
export const MAX_SEQUENCE_BYTES = 64;
/** Bytes of a file with variables. */
export const MAX_ENV_FILE_BYTES = 1024 * 1024;
/** Typed bytes that wait for the program. Beyond that no more keys are read. */
export const MAX_TYPED_BYTES = 64 * 1024;
/** How long a lost connection is waited for if the server does not say how long it keeps the session. */
export const RECOVERY_MS = 25_000;
/** How much later than the end of a session this command gives up: the server may have noticed the loss later. */
export const SESSION_END_MS = 1_000;
/** How long `kill` waits for the end of a program. The kernel takes milliseconds, unless a device or a network file system does not answer. */
export const END_TIMEOUT_MS = 30_000;
/** How long completion asks for processes. A person waits for the answer. */
export const COMPLETION_TIMEOUT_MS = 1_000;
/** How long the output of a program may stay open after its exit before that is reported. */
export const REPORT_WAIT_MS = 2_000;
/** How often a command in raw mode checks whether its parent is gone. */
export const ORPHAN_CHECK_MS = 500;
/** How long the answer to `~.` may take before that is reported. */
export const DETACH_WAIT_MS = 2_000;
