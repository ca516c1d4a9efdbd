import {
  childPath,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { MAX_LINKS } from '../limits.ts';
import type { FileFacts, FileProbe } from './file-probe.ts';

/** A symbolic link that was followed to reach a path. */
export interface CrossedLink {
  /** Its path, with links resolved. */
  readonly path: NativePath;
  readonly target: string;
}

/** A path with its links resolved. */
export interface ResolvedPath {
  /** The path with links resolved. The part that does not exist is resolved by name alone. */
  readonly real: NativePath;
  /** Null when the path does not exist. */
  readonly facts: FileFacts | null;
  /** The first component that does not exist. Null when all exist. */
  readonly firstMissing: NativePath | null;
  /** A component that is not a directory but would have to be one. */
  readonly nonDirectory: NativePath | null;
  /** The directory that the server may not search, if resolving stopped there. */
  readonly unreachable: NativePath | null;
  /** The links that were followed, in order. */
  readonly links: readonly CrossedLink[];
}

/** Resolves the path component by component, as the kernel does. */
export async function resolvePath(path: NativePath, probe: FileProbe): Promise<ResolvedPath> {
  const links: CrossedLink[] = [];
  const ahead = namesOf(path).reverse();
  let real = ROOT;
  let facts = await probe.facts(ROOT);
  const end = (rest: Partial<ResolvedPath>): ResolvedPath => ({
    real: ahead.reduceRight<NativePath>((directory, name) => step(directory, name), real),
    facts: null,
    firstMissing: null,
    nonDirectory: null,
    unreachable: null,
    links,
    ...rest,
  });
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    if (facts !== null && facts !== 'unreachable' && facts.type !== 'directory') {
      ahead.push(name);
      return end({ nonDirectory: real });
    }
    const parent = real;
    real = step(real, name);
    facts = await probe.facts(real);
    if (facts === null) return end({ firstMissing: real });
    if (facts === 'unreachable') return end({ unreachable: parent });
    if (facts.type !== 'link') continue;
    const target = await probe.linkTarget(real);
    links.push({ path: real, target });
    if (links.length > MAX_LINKS) {
      throw unenforceable(
        `cannot enforce the sandbox path ${textOfNativePath(path)}: it has too many symbolic links`,
      );
    }
    real = target.startsWith('/') ? ROOT : parent;
    facts = await probe.facts(real);
    ahead.push(...namesOf(target).reverse());
  }
  return end(facts === 'unreachable' ? { unreachable: parentPath(real) } : { facts });
}

const ROOT = nativePathOfBytes('/');

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

function step(directory: NativePath, name: string): NativePath {
  return name === '..' ? parentPath(directory) : childPath(directory, name);
}
