import { type MethodDefinition, method } from './define.ts';
import * as process from './process.ts';
import * as processStart from './process-start.ts';
import * as recordings from './recordings.ts';
import * as sharing from './sharing.ts';

const exec = { family: 'exec', needs: 'exec', subject: 'processId' } as const;
const observed = { ...exec, needs: 'processes.read' } as const;

/** The requests about processes and their recordings. */
export const PROCESS_METHODS = {
  'process/start': method({
    ...exec,
    refused: processStart.PASSED_DESCRIPTORS,
    params: processStart.ProcessStartParams,
    result: processStart.ProcessStartResult,
    summary: 'Starts a program. The result means that it was executed.',
  }),
  'process/read': method({
    ...observed,
    params: process.ProcessReadParams,
    result: process.ProcessReadResult,
    summary: 'Returns retained output and the state. Can wait for new output.',
  }),
  'process/write': method({
    ...exec,
    params: process.ProcessWriteParams,
    result: process.ProcessWriteResult,
    summary: 'Queues bytes for stdin. The server delays the result while the child does not keep up.',
  }),
  'process/signal': method({
    ...exec,
    lane: 'control',
    params: process.ProcessSignalParams,
    result: process.EmptyResult,
    summary: 'Sends a signal to the process group. No error when the process is gone.',
  }),
  'process/terminate': method({
    ...exec,
    lane: 'control',
    params: process.ProcessTerminateParams,
    result: process.ProcessTerminateResult,
    summary: 'Ends the process and all its descendants.',
  }),
  'process/closeStdin': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processCloseStdin',
    params: process.ProcessSubjectParams,
    result: process.ProcessCloseStdinResult,
    summary: 'Closes stdin after the earlier writes.',
  }),
  'process/resize': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processResize',
    params: process.ProcessResizeParams,
    result: process.EmptyResult,
    summary: 'Sets the size of the terminal; the program gets SIGWINCH.',
  }),
  'process/wait': method({
    ...observed,
    origin: 'extension',
    capability: 'processWait',
    params: process.ProcessWaitParams,
    result: process.ProcessWaitResult,
    summary: 'Waits for the end of a process without delaying other requests.',
  }),
  'process/snapshot': method({
    ...observed,
    origin: 'extension',
    capability: 'processSnapshot',
    params: process.ProcessSubjectParams,
    result: process.ProcessSnapshotResult,
    summary: 'Returns the head and tail of each stream, and the number of bytes missing between them.',
  }),
  'process/list': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    lane: 'control',
    capability: 'processList',
    params: process.ProcessListParams,
    result: process.ProcessListResult,
    summary:
      'Lists processes in the order of their starts, as many as fit into a megabyte. By default those of the session.',
  }),
  'process/attach': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    capability: 'processSharing',
    params: sharing.ProcessAttachParams,
    result: sharing.ProcessAttachResult,
    summary:
      'Follows a process that another session started, that outlived its session, or that this session has detached from: this connection gets its notifications.',
  }),
  'process/detach': method({
    ...observed,
    origin: 'extension',
    capability: 'processSharing',
    params: sharing.ProcessDetachParams,
    result: process.EmptyResult,
    summary:
      'Stops following a process, which keeps running. This connection gets no more notifications of it, does not drive it and does not slow it, also after the session is resumed, until it attaches again. A session follows a process that it started with the lifetime `session` until its end: only the flow-control window ends. No error when there is nothing to end.',
  }),
  'process/consumed': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processFlowControl',
    params: sharing.ProcessConsumedParams,
    result: process.EmptyResult,
    summary: 'Extends the flow-control window of a process. No error when there is none.',
  }),
  'process/screen': method({
    ...observed,
    origin: 'extension',
    capability: 'processScreen',
    params: sharing.ProcessScreenParams,
    result: sharing.Screen,
    summary: 'Returns the screen of a terminal as it is now.',
  }),
  'process/forget': method({
    ...exec,
    origin: 'extension',
    capability: 'processForget',
    params: process.ProcessSubjectParams,
    result: process.EmptyResult,
    summary: 'Removes a process that has closed, with its retained output. Refused while it runs.',
  }),
  'process/setLifetime': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processSetLifetime',
    params: sharing.ProcessSetLifetimeParams,
    result: process.EmptyResult,
    summary: 'Turns a process into a detached one. Refused when it has closed.',
  }),
  'recordings/list': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    capability: 'processRecording',
    params: recordings.RecordingsListParams,
    result: recordings.RecordingsListResult,
    summary: 'Lists recordings of processes, the oldest first, as many as fit into a megabyte.',
  }),
  'recordings/read': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    capability: 'processRecording',
    params: recordings.RecordingsReadParams,
    result: recordings.RecordingsReadResult,
    summary: 'Returns bytes of a recording: lines in the format asciicast v3.',
  }),
} as const satisfies Record<string, MethodDefinition>;
