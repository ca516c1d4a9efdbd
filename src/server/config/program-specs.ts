import type { OptionSpecs } from './option-spec.ts';
import { GIB, KIB, MAX_COUNT, TIB, WEEK } from './units.ts';

/** The options of what is kept from programs and requests, and of what is recorded. */
export const PROGRAM_SPECS = {
  minSandbox: {
    group: 'Sandbox',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'A JSON file with a `sandbox` object that holds for every request, also for those that ask for less or for none; empty for none.',
  },
  maxProcessMemoryBytes: {
    group: 'Limits of programs',
    type: 'bytes',
    min: 0,
    max: 1024 * TIB,
    description: 'Memory of a program and what it starts; 0 is no limit. A client can ask for less.',
  },
  maxProcessPids: {
    group: 'Limits of programs',
    type: 'integer',
    min: 0,
    max: MAX_COUNT,
    description:
      'Processes and threads of a program and what it starts, which needs control groups; 0 is no limit.',
  },
  maxProcessCpuPercent: {
    group: 'Limits of programs',
    type: 'integer',
    min: 0,
    max: 1_000_000,
    description:
      'Share of one processor for a program and what it starts, which needs control groups; 0 is no limit.',
  },
  maxProcessWallMs: {
    group: 'Limits of programs',
    type: 'duration',
    min: 0,
    max: WEEK,
    description: 'How long a program may run; 0 is no limit.',
  },
  maxProcessIdleMs: {
    group: 'Limits of programs',
    type: 'duration',
    min: 0,
    max: WEEK,
    description: 'How long a program may go without output; 0 is no limit.',
  },
  maxProcessOutputBytes: {
    group: 'Limits of programs',
    type: 'bytes',
    min: 0,
    max: 1024 * TIB,
    description: 'How much a program may write; 0 is no limit.',
  },
  maxSessionMemoryBytes: {
    group: 'Limits of sessions',
    type: 'bytes',
    min: 0,
    max: 1024 * TIB,
    description: 'Memory of all programs of a session together, which needs control groups; 0 is no limit.',
  },
  maxSessionPids: {
    group: 'Limits of sessions',
    type: 'integer',
    min: 0,
    max: MAX_COUNT,
    description:
      'Processes and threads of all programs of a session together, which needs control groups; 0 is no limit.',
  },
  maxSessionCpuPercent: {
    group: 'Limits of sessions',
    type: 'integer',
    min: 0,
    max: 1_000_000,
    description:
      'Share of one processor for all programs of a session together, which needs control groups; 0 is no limit.',
  },
  httpAllowedHosts: {
    group: 'Requests to web servers',
    type: 'string',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description: 'Hosts that `http/request` may reach; every host when empty.',
  },
  httpDeniedHosts: {
    group: 'Requests to web servers',
    type: 'string',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description: 'Hosts that `http/request` may not reach.',
  },
  httpPrivateAddresses: {
    group: 'Requests to web servers',
    type: 'boolean',
    description:
      "Let `http/request` reach addresses that are not public: this machine, its network, a cloud's metadata.",
  },
  maxHttpBodyBytes: {
    group: 'Requests to web servers',
    type: 'bytes',
    min: KIB,
    max: GIB,
    description:
      "Bytes of bodies that one connection's `http/request`s hold at once; streamed ones hold next to nothing.",
  },
  auditLog: {
    group: 'Records',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a regular file, which is made if it does not exist',
    description:
      'A file to which connections, starts, exits, file changes and refusals are appended; empty for none.',
  },
  auditOnError: {
    group: 'Records',
    type: 'enum',
    values: ['stop', 'continue'],
    description: 'Whether new work stops while the audit log cannot be written, or goes on unrecorded.',
  },
  auditFsync: {
    group: 'Records',
    type: 'boolean',
    description: 'Have every line of the audit log reach the disk before the work it speaks of goes on.',
  },
  otel: {
    group: 'Records',
    type: 'boolean',
    description:
      'Trace requests with OpenTelemetry, and carry their traces on to programs and web servers. Spans need an SDK in the process.',
  },
  metrics: {
    group: 'Records',
    type: 'boolean',
    description: 'Serve metrics for Prometheus at `/metrics`.',
  },
  logLevel: {
    group: 'Records',
    type: 'enum',
    values: ['debug', 'info', 'warn', 'error'],
    description: 'Least severe log record written to stderr.',
  },
} satisfies Partial<OptionSpecs>;
