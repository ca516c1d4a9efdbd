import { FileError } from '../errors.ts';
import { startSearchThread } from '../search-thread.ts';
import type { EngineRun, SearchTask } from './engine.ts';
import { javaScriptPattern } from './pattern.ts';
import type { ThreadMessage } from './thread-messages.ts';

/**
 * Searches in a thread of its own. There, a pattern may backtrack for ever and a dead mount may hang a call: neither holds up the
 * server's own thread or those that it shares for file access. A thread can be ended while it matches.
 */
export function startBuiltin({ query, isDirectory, collector }: SearchTask): EngineRun {
  const thread = startSearchThread({ query, isDirectory, pattern: javaScriptPattern(query) });
  const stop = () => void thread.terminate();
  const gone = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
  const finished = new Promise<void>((resolve, reject) => {
    thread.on('message', (message: ThreadMessage) => {
      if (message.kind === 'skipped') collector.miss('size');
      else if (message.kind === 'finished') resolve();
      else if (message.kind === 'failed')
        reject(new FileError(message.errorKind, message.message, message.errno));
      else if (!message.matches.every((match) => collector.add(match))) resolve();
    });
    thread.once('error', (error) => reject(new FileError('failed', `search failed: ${error.message}`)));
    thread.once('exit', () => reject(new FileError('failed', 'search failed: its thread has ended')));
  });
  return { finished, gone, stop };
}
