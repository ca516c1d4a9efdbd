import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { ensureHelm, ensureKubernetesModels } from '../../scripts/kubernetes-tools.mjs';
import type { KubernetesObject } from './kubernetes-objects.ts';

export const CHART = fileURLToPath(new URL('../../deploy/helm/exec-server', import.meta.url));

const found = await Promise.all([ensureHelm(), ensureKubernetesModels()]).catch((error: Error) => error);
/** Why the chart cannot be rendered on this machine, or null. */
export const helmMissing = found instanceof Error ? found.message : null;

export const RELAY = ['relay.url=https://relay.example', 'relay.secret=relay', 'relay.executorTokens=tokens'];
export const SERVICE = ['access=service', 'service.tokenSecret=token'];
const TEMPLATE = 'executors.kind=template';
/** Values by what they describe. */
export const INSTALLATIONS: Readonly<Record<string, readonly string[]>> = {
  'executors behind a relay': RELAY,
  'executors of a template behind a relay': [...RELAY, TEMPLATE],
  'executors behind a relay elsewhere': [...RELAY, 'relay.enabled=false'],
  'one relay node without Redis': [...RELAY, 'relay.replicas=1', 'redis.enabled=false'],
  'a relay with a Redis elsewhere and TLS': [
    ...RELAY,
    'redis.urlSecret=redis',
    'relay.ingress.tlsSecret=tls',
  ],
  'executors behind a service': [...SERVICE, 'executors.workspace.size='],
  'executors of a template behind a service': [...SERVICE, TEMPLATE],
  'executors with a sandbox': [...SERVICE, 'sandbox.enabled=true'],
  'executors of a template with a sandbox': [...SERVICE, TEMPLATE, 'sandbox.enabled=true'],
  'a relay without clients': [...RELAY, 'relay.clients=null'],
  'a service without clients': [...SERVICE, 'service.clients=null'],
  'a chart that depends on it under a condition': [...RELAY, 'enabled=true'],
  'executors with a runtime class': [...SERVICE, 'executors.runtimeClassName=gvisor'],
};

/** Renders the chart with these values, or flags of helm. */
export async function render(values: readonly string[], release = 'box'): Promise<KubernetesObject[]> {
  const sets = values.flatMap((value) => (value.startsWith('--') ? [value] : ['--set', value]));
  const { stdout } = await promisify(execFile)((found as [string, string])[0], [
    'template',
    release,
    CHART,
    ...sets,
  ]);
  return parseAllDocuments(stdout)
    .map((document) => document.toJS() as KubernetesObject | null)
    .filter((object) => object !== null);
}

/** Renders every installation. */
export async function renderAll(): Promise<ReadonlyMap<string, readonly KubernetesObject[]>> {
  const rendered = new Map<string, KubernetesObject[]>();
  for (const [name, values] of Object.entries(INSTALLATIONS)) rendered.set(name, await render(values));
  return rendered;
}

export function find(objects: readonly KubernetesObject[], kind: string, name: string): KubernetesObject {
  return objects.find((candidate) => candidate.kind === kind && candidate.metadata.name === name)!;
}
