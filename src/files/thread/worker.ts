import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { FileError, toFileError } from '../errors.ts';
import { walkBlocking } from '../local/walk.ts';
import { WalkText, walkTextBuffer } from './encoded-walk.ts';
import { SharedWriteSlot, type WriteJob } from './shared-write-slot.ts';
import { readSmallFileSync, writeSmallFileSync } from './small-files.ts';
import type { ThreadAnswers, ThreadJob, ThreadMessage, WalkJob } from './thread-messages.ts';

const port = parentPort!;
const writeSlot = new SharedWriteSlot(workerData as SharedArrayBuffer);
/** Shared by all walks, one after another. The first walk allocates it. */
let walkText: Buffer | null = null;

// A thread that makes blocking system calls. A dead mount blocks only this thread. The server stops it by terminating it.
send({ kind: 'ready' });
void serve();

async function serve(): Promise<never> {
  for (;;) {
    const next = writeSlot.next();
    try {
      if (next !== 'message') write(next);
      else await answer(receiveMessageOnPort(port)!.message as ThreadJob);
    } catch (thrown) {
      const error = toFileError(thrown);
      if (!(error instanceof FileError)) throw error;
      send({ kind: 'failed', errorKind: error.kind, message: error.message, errno: error.errno });
      writeSlot.complete('other');
    }
  }
}

function write({ path, bytes }: WriteJob): void {
  const outcome = writeSmallFileSync(path, bytes);
  if (outcome === 'written' && writeSlot.complete('written')) return;
  done(outcome);
  writeSlot.complete('other');
}

async function answer(job: ThreadJob): Promise<void> {
  if (job.kind === 'walk') await walk(job);
  else done(readSmallFileSync(job.path));
}

async function walk({ start, options, limits }: WalkJob): Promise<void> {
  walkText ??= walkTextBuffer();
  const entries = new WalkText(walkText);
  const outcome = await walkBlocking(start, options, limits, entries.add.bind(entries));
  const text = entries.copy();
  done({ ...outcome, text }, [text]);
}

function done(answered: ThreadAnswers[keyof ThreadAnswers], transferred: ArrayBuffer[] = []): void {
  send({ kind: 'done', answer: answered }, transferred);
}

function send(message: ThreadMessage, transferred: ArrayBuffer[] = []): void {
  port.postMessage(message, transferred);
}
