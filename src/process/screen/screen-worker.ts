import { parentPort } from 'node:worker_threads';
import { drawScreen, loadLibrary } from './headless-terminal.ts';
import { type DrawingRequest, fromMessage, READY } from './screen-messages.ts';

// The program of the thread that draws screens. An error ends it: the library may throw in a timer of its own.
const port = parentPort!;

port.on('message', async ({ start, inputs }: DrawingRequest) => {
  const screen = await drawScreen({ ...start, input: fromMessage(start.input) }, fromMessage(inputs));
  port.postMessage(screen);
});
loadLibrary();
port.postMessage(READY);
