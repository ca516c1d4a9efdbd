/** What a service is: where it listens, and as whom it runs. */
export interface ServicePlan {
  readonly kind: 'server' | 'relay';
  /** Whether it is a service of the user who installs it. */
  readonly user: boolean;
  /** The account that a service of the system runs as; null for one that systemd allocates. */
  readonly runAs: string | null;
  /** The URL of --listen, and the same address as systemd writes it. */
  readonly listen: string;
  readonly stream: string;
  /** The command line that starts exec-server. */
  readonly program: readonly string[];
  readonly environmentFile: string;
  /** The file with the token of a server, or with the secret of a relay. */
  readonly secretFile: string;
}

/** The name of the units of a service, without their endings. */
export function unitName({ kind }: Pick<ServicePlan, 'kind'>): string {
  return kind === 'server' ? 'exec-server' : 'exec-server-relay';
}

/** The unit that systemd starts with the first connection. */
export function serviceUnit(plan: ServicePlan): string {
  const { kind, user } = plan;
  const name = unitName(plan);
  const isServer = kind === 'server';
  return section({
    Unit: [
      `Description=exec-server: ${isServer ? 'runs programs for clients' : 'relay for servers behind firewalls'}`,
      `Requires=${name}.socket`,
      `After=${name}.socket${user ? '' : ' network.target'}`,
    ],
    Service: [
      'Type=exec',
      `ExecStart=${commandLine(plan)}`,
      // The kill of the shell: minimal systems have no /bin/kill.
      'ExecReload=/bin/sh -c "kill -HUP $$MAINPID"',
      ...identity(plan),
      `EnvironmentFile=${escapeSpecifiers(plan.environmentFile)}`,
      // A server that has drained ends with 0: the next connection starts it again.
      'Restart=on-failure',
      'RestartSec=1',
      // The server ends its programs itself. What it leaves is killed.
      'KillMode=mixed',
      'TimeoutStopSec=30',
      ...(isServer ? serverOptions(plan) : relayOptions(user)),
    ],
    Install: [`Also=${name}.socket`, `WantedBy=${user ? 'default' : 'multi-user'}.target`],
  });
}

/** The unit of the socket, which systemd keeps open while the service is stopped or restarted. */
export function socketUnit(plan: ServicePlan): string {
  return section({
    Unit: [`Description=Socket of ${unitName(plan)}.service`],
    Socket: [
      `ListenStream=${plan.stream}`,
      // Only its owner may open a Unix socket.
      ...(plan.stream.startsWith('/') ? ['SocketMode=0600', ...socketOwner(plan)] : ['NoDelay=yes']),
    ],
    Install: ['WantedBy=sockets.target'],
  });
}

/** The settings of a service, for its administrator to change. `digest` is the SHA-256 of the token of a server. */
export function environmentText({ kind, user }: ServicePlan, digest: string): string {
  const restart = `systemctl ${user ? '--user ' : ''}restart ${unitName({ kind })}`;
  if (kind === 'relay') {
    return `\
# Options of the relay ('exec-server relay --help' lists them). After a change: ${restart}
#RELAY_OPTIONS=--public-url https://relay.example --metrics-listen 127.0.0.1:9465
#EXEC_SERVER_RELAY_STORE=redis://127.0.0.1:6379
`;
  }
  return `\
# Settings of the server ('exec-server config' lists them with their variables). After a change: ${restart}
# Clients need the token with this SHA-256. The server does not have the token itself.
EXEC_SERVER_WS_AUTH=capability-token
EXEC_SERVER_WS_TOKEN_SHA256=${digest}
EXEC_SERVER_LOG_LEVEL=info
#EXEC_SERVER_AUDIT_LOG=${user ? 'audit.jsonl' : '/var/lib/exec-server/audit.jsonl'}
#EXEC_SERVER_METRICS_LISTEN=127.0.0.1:9464
`;
}

function section(sections: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(sections)
    .map(([title, lines]) => `[${title}]\n${lines.join('\n')}\n`)
    .join('\n');
}

function commandLine({ kind, user, listen, program, secretFile }: ServicePlan): string {
  const args = kind === 'server' ? ['serve', '--listen', listen] : ['relay', '--listen', listen];
  const words = [...program, ...args].map(quoteWord);
  if (kind === 'relay')
    words.push('--secret-file', user ? quoteWord(secretFile) : '%d/secret', '$RELAY_OPTIONS');
  else words.push('--pid-file', `%t/${PID_FILE}`);
  return words.join(' ');
}

/** The pid file of a server that is a service. */
export function servicePidFile(user: boolean, { XDG_RUNTIME_DIR }: NodeJS.ProcessEnv): string {
  return `${user ? XDG_RUNTIME_DIR || `/run/user/${process.geteuid!()}` : '/run'}/${PID_FILE}`;
}

/** Not in the folder of the user's private server, because systemd removes the folder of a service. */
const RUNTIME_FOLDER = 'exec-server-service';
const PID_FILE = `${RUNTIME_FOLDER}/pid`;

/** Writes a word of a command line of systemd.service(5), which replaces variables, specifiers and quotes. */
function quoteWord(word: string): string {
  const escaped = escapeSpecifiers(word.replace(/[\\"]/g, '\\$&')).replace(/\$/g, '$$$$');
  return /[\s;'\\"]/.test(word) ? `"${escaped}"` : escaped;
}

/** Writes a text in which systemd replaces specifiers: systemd.unit(5). */
function escapeSpecifiers(text: string): string {
  return text.replace(/%/g, '%%');
}

/** The account and the folders of a service. */
function identity(plan: ServicePlan): string[] {
  const { kind, user, runAs, secretFile } = plan;
  const name = unitName(plan);
  if (user) return kind === 'server' ? ['WorkingDirectory=%h'] : [`StateDirectory=${name}`, storeIn(name)];
  const account = runAs === null ? ['DynamicUser=yes'] : [`User=${runAs}`];
  if (kind === 'relay')
    return [
      ...account,
      `StateDirectory=${name}`,
      storeIn(name),
      `LoadCredential=secret:${escapeSpecifiers(secretFile)}`,
    ];
  if (runAs !== null) return [...account, `StateDirectory=${name}`, 'WorkingDirectory=~'];
  const home = `%S/${name}`;
  const variables = `Environment=HOME=${home} SHELL=/bin/sh`;
  return [...account, `StateDirectory=${name}`, `WorkingDirectory=${home}`, variables];
}

function storeIn(name: string): string {
  return `Environment=EXEC_SERVER_RELAY_STORE=file://%S/${name}/registrations`;
}

function socketOwner({ user, runAs }: ServicePlan): string[] {
  return user || runAs === null ? [] : [`SocketUser=${runAs}`];
}

/** docs/guides/service.md explains which options of systemd.exec(5) are missing, and why: the server runs programs in sandboxes. */
function serverOptions({ user, runAs }: ServicePlan): string[] {
  // The server limits programs with control groups below its own. A program that runs out of memory must not end the server.
  const always = ['Delegate=yes', 'OOMPolicy=continue', `RuntimeDirectory=${RUNTIME_FOLDER}`];
  if (user) return always;
  return [
    ...always,
    'NoNewPrivileges=yes',
    'CapabilityBoundingSet=',
    'AmbientCapabilities=',
    // Programs of an account write to its home directory; others write to the state directory only.
    ...(runAs === null ? ['ProtectSystem=strict', 'ProtectHome=yes'] : ['ProtectSystem=full']),
    'PrivateTmp=yes',
    'ProtectKernelModules=yes',
    'RestrictRealtime=yes',
    'LockPersonality=yes',
    'KeyringMode=private',
    'RemoveIPC=yes',
    'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK',
    'SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap',
    'SystemCallErrorNumber=EPERM',
  ];
}

/** A relay starts no programs, so it needs nothing of the system but sockets. Node compiles at run time: no MemoryDenyWriteExecute. */
function relayOptions(user: boolean): string[] {
  // These filter system calls, which the manager of a user can do too.
  const always = [
    'UMask=0077',
    'NoNewPrivileges=yes',
    'LockPersonality=yes',
    'RestrictNamespaces=yes',
    'RestrictRealtime=yes',
    'RestrictSUIDSGID=yes',
    'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6',
    'SystemCallArchitectures=native',
    'SystemCallFilter=@system-service',
    // Node raises its own limit on open files, so not @resources.
    'SystemCallFilter=~@privileged',
    'SystemCallErrorNumber=EPERM',
  ];
  if (user) return always;
  return [
    ...always,
    'CapabilityBoundingSet=',
    'AmbientCapabilities=',
    'KeyringMode=private',
    'PrivateDevices=yes',
    'PrivateTmp=yes',
    'PrivateUsers=yes',
    'ProcSubset=pid',
    'ProtectClock=yes',
    'ProtectControlGroups=yes',
    'ProtectHome=yes',
    'ProtectHostname=yes',
    'ProtectKernelLogs=yes',
    'ProtectKernelModules=yes',
    'ProtectKernelTunables=yes',
    'ProtectProc=invisible',
    'ProtectSystem=strict',
    'RemoveIPC=yes',
  ];
}
