/** The service cannot start with this configuration. The message says what to change. */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}

/** Explains the error of a listener that cannot listen on `url`. An error that does not come from the system stays as it is. */
export function listenError(error: unknown, url: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof StartError || code === undefined) return error;
  const reasons = url.startsWith('unix:') ? UNIX_FAILURES : PORT_FAILURES;
  return new StartError(`cannot listen on ${url}: ${reasons[code] ?? message}`, { cause: error });
}

/** Why a server cannot listen on a port and how to fix it, by system error code. */
const PORT_FAILURES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use (choose another, or 0 for a free one)',
  EACCES: 'the port needs privileges (choose one above 1023, or 0 for a free one)',
  EADDRNOTAVAIL: 'this machine has no such address (use 127.0.0.1, or 0.0.0.0 for every interface)',
  EAFNOSUPPORT: 'this machine does not support that address family (use 127.0.0.1)',
};

const UNIX_FAILURES: Readonly<Record<string, string>> = {
  // Node reports EACCES for a missing directory too.
  EACCES: 'its directory does not exist or is not writable (create it, or choose another path)',
  ENOTDIR: 'part of the path is not a directory (choose another path)',
};
