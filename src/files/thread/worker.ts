import { readlinkSync } from 'node:fs';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { FileError, toFileError } from '../errors.ts';
import { walkBlocking } from '../local/walk.ts';
import { roomForWalkText, WalkText } from './encoded-walk.ts';
import { SharedWriteSlot, type WriteJob } from './shared-write-slot.ts';
import { readSmallFileSync, writeSmallFileSync } from './small-files.ts';
import type { ThreadAnswers, ThreadJob, ThreadMessage, WalkJob } from './thread-messages.ts';

const port = parentPort!;
const desk = new SharedWriteSlot(workerData as SharedArrayBuffer);
/** For the texts of all walks, one after the other; made by the first. */
let room: Buffer | null = null;

// A thread that works on files and waits for each call itself: a dead mount holds it and nobody else. Whoever wants it to stop ends it.
send({ kind: 'ready', systemThread: systemThread() });
for (;;) {
  const next = desk.next();
  try {
    if (next !== 'message') write(next);
    else await answer(receiveMessageOnPort(port)!.message as ThreadJob);
  } catch (thrown) {
    const error = toFileError(thrown);
    if (!(error instanceof FileError)) throw error;
    send({ kind: 'failed', errorKind: error.kind, message: error.message, errno: error.errno });
    desk.tell('other');
  }
}

function write({ path, bytes }: WriteJob): void {
  const outcome = writeSmallFileSync(path, bytes);
  if (outcome === 'written' && desk.tell('written')) return;
  done(outcome);
  desk.tell('other');
}

async function answer(job: ThreadJob): Promise<void> {
  if (job.kind === 'walk') await walk(job);
  else done(readSmallFileSync(job.path));
}

async function walk({ start, options, reach }: WalkJob): Promise<void> {
  room ??= roomForWalkText();
  const entries = new WalkText(room);
  const outcome = await walkBlocking(start, options, reach, entries.add.bind(entries));
  const text = entries.copy();
  done({ ...outcome, text }, [text]);
}

/** The number by which the system knows this thread. */
function systemThread(): number | null {
  try {
    const [pid, , thread] = readlinkSync('/proc/thread-self').split('/').map(Number);
    // A foreign /proc numbers differently.
    return pid === process.pid ? thread! : null;
  } catch {
    return null;
  }
}

function done(answered: ThreadAnswers[keyof ThreadAnswers], handedOver: ArrayBuffer[] = []): void {
  send({ kind: 'done', answer: answered }, handedOver);
}

function send(message: ThreadMessage, handedOver: ArrayBuffer[] = []): void {
  port.postMessage(message, handedOver);
}
