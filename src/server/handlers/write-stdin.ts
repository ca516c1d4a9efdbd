import type { ManagedProcess } from '../../process/managed-process.ts';
import type { WriteStatus } from '../../process/stdin-queue.ts';
import type { RequestContext } from '../../rpc/router.ts';

/**
 * Writes to a program's stdin. The answer is withheld from a client that writes faster than the program reads; one that says nothing
 * more has it at once, because the bytes are queued and there is nobody left to slow down.
 */
export function writeStdin(
  process: ManagedProcess,
  bytes: Uint8Array,
  writeId: string | null,
  { park, signal }: Pick<RequestContext, 'park' | 'signal'>,
): Promise<WriteStatus> | WriteStatus {
  const status = process.write(bytes, writeId, park);
  if (typeof status === 'string') return status;
  if (signal.aborted) return 'accepted';
  return new Promise((resolve) => {
    const accept = () => resolve('accepted');
    signal.addEventListener('abort', accept, { once: true });
    void status.then((written) => {
      signal.removeEventListener('abort', accept);
      resolve(written);
    });
  });
}
