import { FakeServer, wirePage } from '../fake-server.ts';

/** A result of `process/attach` for the process `r`. */
export const attached = (rest: Record<string, unknown> = {}) => ({
  processId: 'r',
  ref: 'r',
  role: 'viewer',
  tty: false,
  nextSeq: 1,
  exitCode: null,
  closed: false,
  ...rest,
});

/** A server that can share processes and retains the output `seqs`, up to `nextSeq`. */
export function sharingServer({ nextSeq = 1, seqs = [] as readonly number[], page = {} } = {}) {
  const server = new FakeServer();
  server.environmentInfo = {
    capabilities: { processSharing: true, processScreen: true, processReadPosition: true },
  };
  server.answers['process/attach'] = ({ role }) => attached({ role, nextSeq, ...page });
  server.answers['process/detach'] = () => ({});
  server.answers['process/read'] = ({ afterSeq }) =>
    wirePage(
      nextSeq,
      seqs.filter((seq) => seq > afterSeq),
      page,
    );
  return server;
}
