import { ClientError } from '../../client/errors.ts';
import type { ReadyEnvironment, StepEnvironment } from '../turns/step-snapshot.ts';
import type { AttachmentRoots } from './combined-roots.ts';
import { parseSelectedRoot, type SelectedCapabilityRoot } from './selected-root.ts';

/**
 * Returns the roots of the environments of a step: those in the provisioning report, or those in the configuration by the
 * environment's owner. An invalid root excludes all roots of its environment; `warn` receives the reason.
 */
export function attachmentRoots(
  environments: readonly StepEnvironment[],
  warn: (message: string) => void = () => {},
): readonly AttachmentRoots[] {
  return environments
    .filter((each) => each.state === 'ready')
    .map((each) => ({
      configuredBy: each.config === null ? 'thread' : 'owner',
      roots: rootsOf(each, warn),
    }));
}

function rootsOf(
  { environmentId, environment, config }: ReadyEnvironment,
  warn: (message: string) => void,
): readonly SelectedCapabilityRoot[] {
  const { provisioning } = environment as { readonly provisioning?: { readonly roots: unknown } | null };
  const { selectedCapabilityRoots } = Object(config) as { readonly selectedCapabilityRoots?: unknown };
  const roots = config === null ? provisioning?.roots : selectedCapabilityRoots;
  if (!Array.isArray(roots)) return [];
  try {
    return roots.map((root) => rootHere(environmentId, root));
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    warn(`environment '${environmentId}' has unusable capability roots: ${error.message}`);
    return [];
  }
}

/** An environment may only name roots of its own. */
function rootHere(environmentId: string, value: unknown): SelectedCapabilityRoot {
  const root = parseSelectedRoot(value);
  if (root.location.environmentId === environmentId) return root;
  throw new ClientError(
    'invalidInput',
    `root '${root.id}' belongs to environment '${root.location.environmentId}'`,
  );
}
