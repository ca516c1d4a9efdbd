import { FileError } from '../errors.ts';
import { startSearchThread } from '../search-thread.ts';
import type { EngineRun, SearchTask } from './engine.ts';
import type { ThreadMessage } from './thread-messages.ts';

/**
 * Searches on a thread of its own. A pattern that backtracks without end or a call that hangs on a dead mount then blocks neither
 * the event loop nor the shared thread pool. The thread can be terminated while it matches. `program` is its file, instead of the
 * package's.
 */
export function startBuiltin(
  { query, isDirectory, collector }: SearchTask,
  program: string | null = null,
): EngineRun {
  const thread = startSearchThread({ query, isDirectory }, program);
  const stop = () => void thread.terminate();
  const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
  const finished = new Promise<void>((resolve, reject) => {
    thread.on('message', (message: ThreadMessage) => {
      if (message.kind === 'tooLarge') collector.addIncomplete(message.path);
      else if (message.kind === 'unreadable') collector.countUnreadable();
      else if (message.kind === 'finished') resolve();
      else if (message.kind === 'failed')
        reject(new FileError(message.errorKind, message.message, message.errno));
      else if (!message.matches.every((match) => collector.add(match))) resolve();
    });
    thread.once('error', (error) => reject(new FileError('failed', `search failed: ${error.message}`)));
    thread.once('exit', () => reject(new FileError('failed', 'search failed: its thread has exited')));
  });
  return { finished, exited, stop };
}
