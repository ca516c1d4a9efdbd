import type { MountPlan, MountStep } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { PROTECTED_NAMES } from '../../../../src/sandbox/policy/normalize.ts';
import type { Tree } from './tree.ts';

/** Describes the steps of a plan in the tree of a test, one line each. */
export function describeSteps(plan: MountPlan, tree: Tree): string[] {
  return plan.steps.flatMap((step) =>
    'path' in step && step.path.startsWith(tree.path)
      ? [`${wordFor(step, tree)} ${step.path.slice(tree.path.length) || '/'}`]
      : [],
  );
}

/** The protected names as directories for {@link Tree.make}. If all exist, a plan needs no placeholders. */
export function protectedNames(root: string): string[] {
  return PROTECTED_NAMES.map((name) => `${root}/${name}/`);
}

/** The steps of the protected names. */
export function readNames(root: string): string[] {
  return PROTECTED_NAMES.map((name) => `read ${root}/${name}`);
}

function wordFor(step: MountStep, tree: Tree): string {
  if (step.kind === 'bind') return step.writable ? 'write' : 'read';
  if (step.kind === 'link') return `link to ${step.target.replaceAll(tree.path, '@')} at`;
  return 'mode' in step ? `${step.kind}(${step.mode.toString(8)})` : step.kind;
}
