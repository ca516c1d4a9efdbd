import { parentPort } from 'node:worker_threads';
import { FileError, toFileError } from '../errors.ts';
import { readSmallDirectoryNow } from '../local/directory-listing.ts';
import { walkWith } from '../local/walk.ts';
import { WalkText } from './encoded-walk.ts';
import { readNow, writeNow } from './small-files.ts';
import type { ThreadAnswers, ThreadJob, ThreadMessage, WalkJob } from './thread-messages.ts';

// A thread that works on files and waits for each call itself: a dead mount holds it and nobody else. Whoever wants it to stop ends it.
parentPort?.on('message', async (job: ThreadJob) => {
  try {
    if (job.kind === 'walk') await walk(job);
    else if (job.kind === 'read') done(readNow(job.path));
    else done(writeNow(job.path, Buffer.from(job.bytes, 'latin1')));
  } catch (thrown) {
    const error = toFileError(thrown);
    if (!(error instanceof FileError)) throw error;
    send({ kind: 'failed', errorKind: error.kind, message: error.message, errno: error.errno });
  }
});
send({ kind: 'ready' });

async function walk({ path, options }: WalkJob): Promise<void> {
  const found = new WalkText();
  const add = found.add.bind(found);
  const outcome = await walkWith(readSmallDirectoryNow, path, options, add, new AbortController().signal);
  const text = found.take();
  done({ text, outcome }, [text]);
}

function done(answer: ThreadAnswers[ThreadJob['kind']], handedOver: ArrayBuffer[] = []): void {
  send({ kind: 'done', answer }, handedOver);
}

function send(message: ThreadMessage, handedOver: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, handedOver);
}
