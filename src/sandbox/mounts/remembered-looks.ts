import type { NativePath } from '../../files/native-path.ts';
import type { FileFacts, FileProbe } from './file-probe.ts';
import { PLACEHOLDER_MODES } from './mount-plan.ts';

/**
 * Looks at the disk for one plan: each path is looked at once, so that every part of the plan goes by the same facts. What is only
 * there to be mounted on counts as missing: it goes when the sandbox goes that needed it.
 */
export function rememberLooks(probe: FileProbe): FileProbe {
  const known = new Map<NativePath, Promise<FileFacts | 'unreachable' | null>>();
  const look = async (path: NativePath) => {
    const facts = await probe.facts(path);
    return facts !== null && facts !== 'unreachable' && isPlaceholder(facts) ? null : facts;
  };
  return {
    ...probe,
    facts: (path) => {
      let facts = known.get(path);
      if (facts === undefined) {
        facts = look(path);
        known.set(path, facts);
      }
      return facts;
    },
  };
}

function isPlaceholder({ type, mode }: FileFacts): boolean {
  return (type === 'directory' || type === 'file') && mode === PLACEHOLDER_MODES[type];
}
