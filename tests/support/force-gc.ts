import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects garbage. Node frees what WeakRefs hold only between turns of the event loop, so it waits for turns in between. */
export async function forceGc(): Promise<void> {
  for (let round = 0; round < 4; round++) {
    gc();
    await new Promise(setImmediate);
  }
}

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;
