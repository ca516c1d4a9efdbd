import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureKubernetesModels } from '../../scripts/kubernetes-tools.mjs';

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  // biome-ignore lint/suspicious/noExplicitAny: what tests read differs from kind to kind.
  readonly spec: any;
}

const AGENT_SANDBOX = 'extensions.agents.x-k8s.io/v1beta1';
const COMPILER = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
const TYPES = fileURLToPath(new URL('../fixtures/agent-sandbox.d.ts', import.meta.url));

/**
 * What is wrong with objects, as text; empty when nothing is. The compiler finds unknown and missing fields and wrong types, because each
 * object is checked as a literal of its type. The JSON schemas find wrong formats.
 */
export async function problemsOf(objects: readonly KubernetesObject[]): Promise<string> {
  const modules = await ensureKubernetesModels();
  const require = createRequire(join(modules, 'index.js'));
  const invalid = objects
    .filter(({ apiVersion }) => apiVersion !== AGENT_SANDBOX)
    .flatMap((object) => {
      const model = new (require(`kubernetes-models/${object.apiVersion}/${object.kind}`)[object.kind])(
        object,
      );
      try {
        model.validate();
        return [];
      } catch (error) {
        return [`${object.kind} ${object.metadata.name}: ${(error as Error).message}`];
      }
    });
  return [...invalid, await typeErrors(objects, modules)].join('\n').trim();
}

async function typeErrors(objects: readonly KubernetesObject[], modules: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'kubernetes-objects-'));
  try {
    symlinkSync(modules, join(folder, 'node_modules'));
    copyFileSync(TYPES, join(folder, 'agent-sandbox.d.ts'));
    writeFileSync(join(folder, 'objects.ts'), objects.map(declaration).join('\n'));
    const flags = ['--noEmit', '--strict', '--skipLibCheck', '--types', '', '--module', 'esnext'];
    const args = [COMPILER, ...flags, '--moduleResolution', 'bundler', 'objects.ts'];
    return await new Promise((resolve) => {
      execFile(process.execPath, args, { cwd: folder }, (_error, stdout, stderr) => resolve(stdout + stderr));
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function declaration(object: KubernetesObject, index: number): string {
  const isSandbox = object.apiVersion === AGENT_SANDBOX;
  const type = isSandbox
    ? `import('./agent-sandbox').${object.kind}`
    : `import('kubernetes-models/${object.apiVersion}').I${object.kind}`;
  return `export const object${index}: ${type} = ${JSON.stringify(object, null, 1)};`;
}
