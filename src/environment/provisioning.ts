import { ClientError } from '../client/errors.ts';
import type { SelectedCapabilityRoot } from './capability-roots/selected-root.ts';
import { MAX_PROVISIONED_ROOTS } from './limits.ts';

/** A report of the owner of a provisioned environment. */
export type ProvisioningReport =
  | { readonly status: 'ready'; readonly roots: readonly SelectedCapabilityRoot[] }
  | { readonly status: 'failed'; readonly error: string };

/**
 * The state of an environment that its owner provisions. It is pending at first and then becomes ready or failed, which is final.
 */
export class Provisioning {
  readonly #environmentId: string;
  readonly #waiting = new Set<() => void>();
  #roots: readonly SelectedCapabilityRoot[] | null = null;
  #failure: ClientError | null = null;

  constructor(environmentId: string) {
    this.#environmentId = environmentId;
  }

  get status(): 'pending' | 'ready' | 'failed' {
    if (this.#failure !== null) return 'failed';
    return this.#roots === null ? 'pending' : 'ready';
  }

  /** The roots of the last report; empty before the environment is ready. */
  get roots(): readonly SelectedCapabilityRoot[] {
    return this.#roots ?? [];
  }

  /**
   * Applies a report. Later reports may change the roots, but not a failure. Throws when the report contradicts an earlier one or
   * has invalid roots. Invalid roots fail a pending environment.
   */
  report(report: ProvisioningReport): void {
    const { status } = this;
    if (status !== 'pending' && status !== report.status) {
      throw new ClientError(
        'invalidInput',
        `environment '${this.#environmentId}' is ${status} and cannot become ${report.status}`,
        { hint: 'provision it under another id' },
      );
    }
    if (report.status === 'ready') this.#becomeReady(report.roots);
    else if (status === 'pending') this.#fail(report.error);
  }

  /** Resolves when the environment is ready. Rejects when it fails or the signal aborts. */
  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = () => {
        if (this.status === 'pending' && !signal.aborted) return;
        this.#waiting.delete(check);
        signal.removeEventListener('abort', check);
        if (this.status === 'ready') resolve();
        else reject(this.#failure ?? signal.reason);
      };
      this.#waiting.add(check);
      signal.addEventListener('abort', check);
      check();
    });
  }

  /** Calls the listener when the environment fails, or immediately if it has failed. */
  onFailure(listener: (error: ClientError) => void): void {
    const check = () => {
      if (this.status === 'pending') return;
      this.#waiting.delete(check);
      if (this.#failure !== null) listener(this.#failure);
    };
    this.#waiting.add(check);
    check();
  }

  #becomeReady(roots: readonly SelectedCapabilityRoot[]): void {
    const problem = problemOf(roots, this.#environmentId);
    if (problem !== null) {
      const message = `the capability roots of environment '${this.#environmentId}' are invalid: ${problem}`;
      if (this.status === 'pending') this.#fail(message);
      throw new ClientError('invalidInput', message);
    }
    this.#roots = [...roots];
    this.#wake();
  }

  #fail(message: string): void {
    this.#failure = new ClientError('connectFailed', message);
    this.#wake();
  }

  #wake(): void {
    for (const check of [...this.#waiting]) check();
  }
}

/** Returns the error in the roots; null when they are valid. */
function problemOf(roots: readonly SelectedCapabilityRoot[], environmentId: string): string | null {
  if (roots.length > MAX_PROVISIONED_ROOTS) {
    return `there are ${roots.length}, and at most ${MAX_PROVISIONED_ROOTS} are allowed`;
  }
  const seen = new Set<string>();
  for (const { id, location } of roots) {
    if (id.trim() === '') return 'an id is blank';
    if (seen.has(id)) return `the id '${id}' occurs twice`;
    if (location.environmentId !== environmentId) {
      return `root '${id}' belongs to environment '${location.environmentId}'`;
    }
    seen.add(id);
  }
  return null;
}
