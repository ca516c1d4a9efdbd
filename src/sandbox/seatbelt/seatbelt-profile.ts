import { type NativePath, nativePathOfBytes, parentPath, textOfNativePath } from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { accessByEntries, type DiskPolicy, type PolicyEntry, type SandboxPolicy } from '../policy/policy.ts';
import { globExpression } from './glob-expression.ts';

/**
 * The policy in the words of macOS's `sandbox-exec`. Of the rules that match, the last one holds, so what is inside comes after what
 * is around it.
 *
 * Paths are compared after links are followed: those of the policy have to be real, except that the system's own links (`/tmp`,
 * `/var`, `/etc`) are known here. Nothing has to exist: what is closed and missing cannot be made. Patterns hold for files that are
 * made later, too, and at any depth. Not run on macOS so far: only its text is tested.
 */
export function seatbeltProfile({ disk, network }: SandboxPolicy): string {
  const rules = [
    '(version 1)',
    '(deny default)',
    ...PROCESS_RULES,
    ...(disk === 'unrestricted' ? [rule('allow', READ_WRITE, ['(subpath "/")'])] : diskRules(disk)),
    ...(network === 'enabled' ? NETWORK_RULES : []),
  ];
  return `${rules.join('\n')}\n`;
}

const ROOT = nativePathOfBytes('/');
const READ = 'file-read*';
const WRITE = 'file-write*';
const READ_WRITE = `${READ} ${WRITE}`;

/** What a program needs to be one: itself, its children, a terminal and the harmless devices. */
const PROCESS_RULES: readonly string[] = [
  '(allow process-exec process-fork)',
  '(allow signal (target same-sandbox))',
  '(allow process-info* (target same-sandbox))',
  '(allow sysctl-read)',
  '(allow ipc-posix-sem)',
  '(allow user-preference-read)',
  '(allow pseudo-tty)',
  '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
  '(allow file-read* file-write* file-ioctl (literal "/dev/ptmx") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))',
  '(allow file-read* file-write-data (literal "/dev/null") (literal "/dev/zero"))',
  '(allow file-read* (literal "/") (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))',
];

/** The sockets, and the services that resolve names and check certificates. */
const NETWORK_RULES: readonly string[] = [
  '(allow network* system-socket)',
  '(allow mach-lookup (global-name "com.apple.SecurityServer") (global-name "com.apple.networkd") (global-name "com.apple.trustd.agent") (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.SystemConfiguration.DNSConfiguration") (global-name "com.apple.dnssd.service"))',
];

/** What the platform is on macOS. */
const PLATFORM = [
  '/bin',
  '/sbin',
  '/usr',
  '/System',
  '/Library/Apple',
  '/etc',
  '/var/db/dyld',
  '/var/select',
  '/opt/homebrew',
];

function diskRules(disk: DiskPolicy): string[] {
  return [
    ...accessRules(disk.base, ['(subpath "/")']),
    ...(disk.platform
      ? [
          rule(
            'allow',
            READ,
            PLATFORM.flatMap((path) => subpaths(nativePathOfBytes(path))),
          ),
        ]
      : []),
    ...wayRules(disk),
    ...disk.entries.flatMap((entry) => [
      ...accessRules(entry.access, subpaths(entry.path)),
      ...keepRules(disk, entry),
    ]),
    ...disk.denyGlobs.map((glob) => rule('deny', READ_WRITE, spellings(glob.pattern).map(globExpression))),
  ];
}

function accessRules(access: PolicyEntry['access'], where: readonly string[]): string[] {
  if (access === 'write') return [rule('allow', READ_WRITE, where)];
  if (access === 'deny') return [rule('deny', READ_WRITE, where)];
  return [rule('allow', READ, where), rule('deny', WRITE, where)];
}

/** On a closed disk the directories around what is open can be passed and named, not listed. */
function wayRules(disk: DiskPolicy): string[] {
  if (disk.base !== 'deny') return [];
  const open = disk.entries.filter((entry) => entry.access !== 'deny');
  const around = new Set(open.flatMap((entry) => spellings(entry.path).flatMap(ancestors)));
  return around.size === 0 ? [] : [rule('allow', 'file-read-metadata', [...around].sort().map(literal))];
}

/** What is closed in a writable directory stays where it is: no directory around it can be renamed, and another be put in its place. */
function keepRules(disk: DiskPolicy, { path, access }: PolicyEntry): string[] {
  if (access === 'write' || accessByEntries(disk, parentPath(path)) !== 'write') return [];
  const kept = [path, ...ancestors(path)].filter(
    (at) => at === path || accessByEntries(disk, at) === 'write',
  );
  return [rule('deny', 'file-write-unlink', kept.flatMap(spellings).map(literal))];
}

function rule(decision: 'allow' | 'deny', operations: string, where: readonly string[]): string {
  return `(${decision} ${operations} ${where.join(' ')})`;
}

function subpaths(path: NativePath): string[] {
  return spellings(path).map((spelling) => `(subpath ${quote(spelling)})`);
}

function literal(path: NativePath): string {
  return `(literal ${quote(path)})`;
}

/** The path, and where the system's own links lead it. */
function spellings(path: NativePath): NativePath[] {
  return /^\/(?:tmp|var|etc)(?:\/|$)/.test(path) ? [path, nativePathOfBytes(`/private${path}`)] : [path];
}

/** The directories around a path, the root left out. */
function ancestors(path: NativePath): NativePath[] {
  const found: NativePath[] = [];
  for (let at = parentPath(path); at !== ROOT; at = parentPath(at)) found.push(at);
  return found;
}

function quote(path: NativePath): string {
  const text = textOfNativePath(path);
  // Names are texts there; one that is none cannot be said.
  if (Buffer.from(text).toString('latin1') !== path) {
    throw unenforceable(`the sandbox path ${text} is not UTF-8`);
  }
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}
