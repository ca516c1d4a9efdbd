import { FILE, GIB, KIB, MAX_COUNT, MIB, type Setting, TIB, WEEK } from './setting.ts';

/** Settings of what programs and requests may do, and of what is logged. */
export const PROGRAM_SETTINGS = {
  minSandbox: {
    ...FILE,
    group: 'Sandbox',
    description:
      'JSON file with a `sandbox` object that applies to every request, including requests that ask for less or for none. Empty for none.',
  },
  maxProcessMemoryBytes: {
    group: 'Program limits',
    type: 'bytes',
    default: 0,
    min: 0,
    max: 1024 * TIB,
    description: 'Memory of a program and its descendants; 0 is no limit. A client can ask for less.',
  },
  maxProcessPids: {
    group: 'Program limits',
    type: 'integer',
    default: 0,
    min: 0,
    max: MAX_COUNT,
    description:
      'Processes and threads of a program and its descendants; 0 is no limit. Needs control groups.',
  },
  maxProcessCpuPercent: {
    group: 'Program limits',
    type: 'integer',
    default: 0,
    min: 0,
    max: 1_000_000,
    description:
      'CPU time of a program and its descendants, in percent of one CPU; 0 is no limit. Needs control groups.',
  },
  maxProcessWallMs: {
    group: 'Program limits',
    type: 'duration',
    default: 0,
    min: 0,
    max: WEEK,
    description: 'How long a program may run; 0 is no limit.',
  },
  maxProcessIdleMs: {
    group: 'Program limits',
    type: 'duration',
    default: 0,
    min: 0,
    max: WEEK,
    description: 'How long a program may run without output; 0 is no limit.',
  },
  maxProcessOutputBytes: {
    group: 'Program limits',
    type: 'bytes',
    default: 0,
    min: 0,
    max: 1024 * TIB,
    description: 'How much output a program may write; 0 is no limit.',
  },
  maxSessionMemoryBytes: {
    group: 'Session limits',
    type: 'bytes',
    default: 0,
    min: 0,
    max: 1024 * TIB,
    description:
      'Memory of all programs of a session, and of all detached programs of an owner; 0 is no limit. Needs control groups.',
  },
  maxSessionPids: {
    group: 'Session limits',
    type: 'integer',
    default: 0,
    min: 0,
    max: MAX_COUNT,
    description:
      'Processes and threads of all programs of a session, and of all detached programs of an owner; 0 is no limit. Needs control groups.',
  },
  maxSessionCpuPercent: {
    group: 'Session limits',
    type: 'integer',
    default: 0,
    min: 0,
    max: 1_000_000,
    description:
      'CPU time of all programs of a session, and of all detached programs of an owner, in percent of one CPU; 0 is no limit. Needs control groups.',
  },
  httpAllowedHosts: {
    group: 'HTTP requests',
    type: 'string',
    default: '',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description: 'Hosts that `http/request` may reach. Every host when empty.',
  },
  httpDeniedHosts: {
    group: 'HTTP requests',
    type: 'string',
    default: '',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description: 'Hosts that `http/request` may not reach.',
  },
  httpPrivateAddresses: {
    group: 'HTTP requests',
    type: 'boolean',
    default: true,
    description:
      "Let `http/request` reach addresses that are not public: this machine, its network, a cloud's metadata service.",
  },
  httpHeaderVariables: {
    group: 'HTTP requests',
    type: 'string',
    default: '',
    placeholder: 'NAMES',
    allowed: 'names of environment variables, separated by commas',
    description:
      'Environment variables of the server that clients with a limited token may send in a header (`valueEnvVar`). Clients with full access may send any but well-known credentials and `EXEC_SERVER_*`.',
  },
  maxHttpBodyBytes: {
    group: 'HTTP requests',
    type: 'bytes',
    default: 128 * MIB,
    min: KIB,
    max: GIB,
    description:
      "Bytes of bodies that one connection's `http/request` calls hold in memory. Streamed bodies hold little.",
  },
  tcpAllowedHosts: {
    group: 'TCP streams',
    type: 'string',
    default: '',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description:
      "Hosts that `tcp/connect` may reach besides this machine's loopback addresses. `--http-denied-hosts` and `--no-http-private-addresses` apply too.",
  },
  bwrapPath: {
    ...FILE,
    group: 'Programs of the server',
    allowed: 'the absolute path of an executable file',
    description: 'The program bwrap, which builds sandboxes. Empty to search the PATH of the server.',
  },
  ripgrepPath: {
    ...FILE,
    group: 'Programs of the server',
    allowed: 'the absolute path of an executable file',
    description:
      'The program ripgrep, with which `fs/search` is faster. Empty to search the PATH of the server.',
  },
  helperDirectory: {
    ...FILE,
    group: 'Programs of the server',
    placeholder: 'DIRECTORY',
    allowed: 'the absolute path of a directory',
    description:
      'Directory with `file-helper.cjs` and `file-search-thread.cjs` of `dist/bin`, for a bundle of the server. Empty for that of the package.',
  },
  auditLog: {
    ...FILE,
    group: 'Logs, audit and metrics',
    allowed: 'the path of a regular file, which the server creates if it does not exist',
    description:
      'File to which the server appends connections, starts, exits, file changes and refusals. Empty for none.',
  },
  auditOnError: {
    group: 'Logs, audit and metrics',
    type: 'enum',
    default: 'stop',
    values: ['stop', 'continue'],
    description:
      'What happens when the audit log cannot be written: refuse new work, or continue unrecorded.',
  },
  auditFsync: {
    group: 'Logs, audit and metrics',
    type: 'boolean',
    default: false,
    description: 'Sync each audit record to disk before the recorded work continues.',
  },
  otel: {
    group: 'Logs, audit and metrics',
    type: 'boolean',
    default: false,
    description:
      'Trace requests with OpenTelemetry and pass the trace context to programs and web servers. Spans need an SDK in the process.',
  },
  metrics: {
    group: 'Logs, audit and metrics',
    type: 'boolean',
    default: false,
    description: 'Serve metrics for Prometheus at `/metrics`.',
  },
  metricsListen: {
    group: 'Logs, audit and metrics',
    type: 'string',
    default: '',
    placeholder: 'IP:PORT',
    allowed: '`IP:PORT`',
    description:
      'Serve `/metrics`, `/healthz` and `/readyz` on this address too, over plain HTTP. Clients cannot use it. Empty for none.',
  },
  metricsTokenFile: {
    ...FILE,
    group: 'Logs, audit and metrics',
    description: 'File with the token that `/metrics` needs, instead of a token of clients.',
  },
  logLevel: {
    group: 'Logs, audit and metrics',
    type: 'enum',
    default: 'warn',
    values: ['debug', 'info', 'warn', 'error'],
    description: 'Lowest severity written to stderr.',
  },
} as const satisfies Record<string, Setting>;
