import { Listeners } from '../../base/listeners.ts';
import { type Activity, ActivityGroup } from './activity.ts';

/** The listeners of notifications by method. They keep Node running while the client can receive any. */
export class NotificationListeners {
  readonly #listening: ActivityGroup;
  readonly #byMethod = new Map<string, Listeners<[unknown]>>();

  constructor(activity: Activity) {
    this.#listening = new ActivityGroup(activity);
  }

  /** Returns a function that removes the listener. */
  add(method: string, listener: (params: unknown) => void): () => void {
    let listeners = this.#byMethod.get(method);
    if (listeners === undefined) {
      listeners = new Listeners(`client.onNotification('${method}')`);
      this.#byMethod.set(method, listeners);
    }
    const remove = listeners.add(listener);
    const end = this.#listening.begin();
    return () => {
      remove();
      end();
    };
  }

  /** `params` is called only when there are listeners. */
  emit(method: string, params: () => unknown): void {
    this.#byMethod.get(method)?.emit(params());
  }

  /** No notification can arrive any more. */
  end(): void {
    this.#listening.end();
  }
}
