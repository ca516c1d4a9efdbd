import { IDLE_CHECKS_PER_TIMEOUT, MAX_IDLE_CHECK_MS } from './limits.ts';

/** What a server does now. */
interface Activity {
  /** Connections accepted so far. A client may come and go between two checks. */
  readonly accepted: number;
  readonly isIdle: boolean;
}

/** Calls back once when a server has been idle for a time. */
export class IdleWatch {
  readonly #timer: NodeJS.Timeout;

  constructor(
    timeoutMs: number,
    activity: () => Activity,
    onIdle: () => void,
    now = () => performance.now(),
  ) {
    let [accepted, idleSince] = [0, now()];
    this.#timer = setInterval(
      () => {
        const current = activity();
        if (!current.isIdle || current.accepted !== accepted) {
          [accepted, idleSince] = [current.accepted, now()];
        } else if (now() - idleSince >= timeoutMs) {
          this.close();
          onIdle();
        }
      },
      Math.min(timeoutMs / IDLE_CHECKS_PER_TIMEOUT, MAX_IDLE_CHECK_MS),
    );
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
