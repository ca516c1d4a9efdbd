import type { Session } from './session.ts';

/**
 * The session that opened a program last, by the reference of the program. Several agents may share a client, so the server cannot say
 * which of them uses a program.
 */
const LATEST = new Map<string, Session>();

/** Remembers the session as the one that uses its program now, until the program ends. */
export function usesProgram(session: Session): void {
  const { process } = session;
  const { ref } = process.process;
  if (ref === null) return;
  LATEST.set(ref, session);
  void process.ended.then(() => {
    if (LATEST.get(ref) === session) LATEST.delete(ref);
  });
}

/** Whether another agent or client has taken the program of a session over. */
export function isTakenOver(session: Session): boolean {
  const { ref, role } = session.process.process;
  const latest = ref === null ? undefined : LATEST.get(ref);
  return role === 'viewer' || (latest !== undefined && latest !== session);
}
