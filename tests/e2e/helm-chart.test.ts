import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { ensureHelm, ensureKubernetesModels } from '../../scripts/kubernetes-tools.mjs';
import { docBlocks } from '../support/doc-page.ts';
import { type KubernetesObject, problemsOf } from '../support/kubernetes-objects.ts';

const CHART = fileURLToPath(new URL('../../deploy/helm/exec-server', import.meta.url));

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

const found = await Promise.all([ensureHelm(), ensureKubernetesModels()]).catch((error: Error) => error);
const why = found instanceof Error ? ` (skipped: ${found.message})` : '';

const RELAY = ['relay.url=https://relay.example', 'relay.secret=relay', 'relay.executorTokens=tokens'];
const SERVICE = ['access=service', 'service.tokenSecret=token'];
const TEMPLATE = 'executors.kind=template';
/** Values by what they describe. */
const INSTALLATIONS: Readonly<Record<string, readonly string[]>> = {
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
  'executors with a runtime class': [...SERVICE, 'executors.runtimeClassName=gvisor'],
};

test('the chart has the version of the package', () => {
  const { version } = JSON.parse(readFileSync(join(CHART, '../../../package.json'), 'utf8'));
  const chart = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8'));
  expect([chart.version, chart.appVersion]).toEqual([version, version]);
});

describe.skipIf(found instanceof Error)(`the Helm chart${why}`, () => {
  const [helm] = found as [string, string];
  const rendered = new Map<string, KubernetesObject[]>();

  async function render(values: readonly string[]): Promise<KubernetesObject[]> {
    const sets = values.flatMap((value) => ['--set', value]);
    const { stdout } = await promisify(execFile)(helm, ['template', 'box', CHART, ...sets]);
    return parseAllDocuments(stdout)
      .map((document) => document.toJS() as KubernetesObject | null)
      .filter((object) => object !== null);
  }

  beforeAll(async () => {
    for (const [name, values] of Object.entries(INSTALLATIONS)) rendered.set(name, await render(values));
  });

  const all = () => [...rendered.values()].flat();
  const object = (installation: string, kind: string, name: string) =>
    rendered
      .get(installation)!
      .find((candidate) => candidate.kind === kind && candidate.metadata.name === name)!;
  const pods = () =>
    all().flatMap(({ spec }) =>
      [spec.template?.spec, spec.podTemplate?.spec].filter((pod) => pod !== undefined),
    );
  const kinds = (installation: string) =>
    rendered
      .get(installation)!
      .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
      .sort();

  test('renders valid objects, to which the claim of the guide fits', async () => {
    const claims = docBlocks('docs/guides/kubernetes.md')
      .filter(({ language }) => language === 'yaml')
      .map(({ text }) => parse(text) as KubernetesObject);
    expect(claims.map(({ kind }) => kind)).toEqual(['SandboxClaim']);
    expect(await problemsOf([...all(), ...claims])).toBe('');
    expect(kinds('executors of a template behind a relay')).toContain(
      `SandboxWarmPool ${claims[0]!.spec.warmPoolRef.name}`,
    );
  });

  test('is checked for unknown fields, missing fields and wrong types', async () => {
    const broken = structuredClone([
      object('executors behind a relay', 'StatefulSet', 'box'),
      object('executors of a template behind a relay', 'SandboxTemplate', 'box'),
      object('executors behind a relay', 'Service', 'box'),
    ]);
    broken[0]!.spec.template.spec.containers[0].readinesProbe = {};
    broken[1]!.spec.podTemplate.spec.containers[0].name = undefined;
    broken[2]!.spec.ports[0].port = 'http';
    const problems = await problemsOf(broken);
    for (const text of ['readinesProbe', '"name"\' is missing', '/spec/ports/0/port'])
      expect(problems).toContain(text);
  });

  test('has two relay nodes that share a Redis, and a path for each of them', () => {
    expect(kinds('executors behind a relay')).toEqual([
      'Deployment box-redis',
      'Ingress box-relay',
      'NetworkPolicy box',
      'NetworkPolicy box-redis',
      'NetworkPolicy box-relay',
      'PodDisruptionBudget box',
      'PodDisruptionBudget box-relay',
      'Service box',
      'Service box-redis',
      'Service box-relay',
      'Service box-relay-0',
      'Service box-relay-1',
      'StatefulSet box',
      'StatefulSet box-relay',
    ]);
    const relay = object('executors behind a relay', 'StatefulSet', 'box-relay').spec.template.spec
      .containers[0];
    expect(relay.args).toContain('--node-url=https://relay.example/$(POD_NAME)');
    const { rules } = object('executors behind a relay', 'Ingress', 'box-relay').spec;
    expect(rules[0].http.paths.map(({ path }: { path: string }) => path)).toEqual([
      '/box-relay-0/',
      '/box-relay-1/',
      '/',
    ]);
    expect(kinds('one relay node without Redis')).not.toContain('Deployment box-redis');
    expect(kinds('executors behind a relay elsewhere')).not.toContain('StatefulSet box-relay');
  });

  test('renders no Secret, and nothing connects to an executor behind a relay', () => {
    expect(all().filter(({ kind }) => kind === 'Secret')).toEqual([]);
    const policy = object('executors behind a relay', 'NetworkPolicy', 'box').spec;
    expect([policy.policyTypes, policy.ingress]).toEqual([['Ingress', 'Egress'], undefined]);
  });

  test('has a warm pool of executors only where they need no token of a claim', () => {
    const pool = (installation: string) => object(installation, 'SandboxWarmPool', 'box').spec.replicas;
    expect(pool('executors of a template behind a relay')).toBe(0);
    expect(pool('executors of a template behind a service')).toBe(1);
  });

  test('runs every container without privileges, and lifts limits only for sandboxes', () => {
    expect(pods().length).toBeGreaterThan(rendered.size);
    for (const pod of pods()) {
      expect(pod.automountServiceAccountToken).toBe(false);
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10001 });
      for (const container of pod.containers) {
        expect(container.securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.resources).toMatchObject({ requests: expect.anything(), limits: expect.anything() });
      }
    }
    const lifted = (installation: string) => {
      const { hostUsers, securityContext, containers } = object(installation, 'StatefulSet', 'box').spec
        .template.spec;
      return [hostUsers, containers[0].securityContext.procMount, securityContext.seccompProfile.type];
    };
    expect(lifted('executors with a sandbox')).toEqual([false, 'Unmasked', 'Unconfined']);
    expect(lifted('executors behind a service')).toEqual([undefined, undefined, 'RuntimeDefault']);
  });

  test('passes the token of its pod to an executor behind a relay', async () => {
    const [container] = object('executors behind a relay', 'StatefulSet', 'box').spec.template.spec
      .containers;
    const [script, ...rest] = container.command.slice(container.command.indexOf('-c') + 1);
    // Kubernetes replaces $$ by $.
    const line = script.replaceAll('$$', '$').replace('/run/secrets/exec-server/', '/proc/self/');
    const program = line.replace(
      'exec exec-server',
      'sh -c \'echo "$EXEC_SERVER_API_KEY" "$@"\' exec-server',
    );
    const { stdout } = await promisify(execFile)('sh', ['-c', program, ...rest, 'serve', '--flag'], {
      env: { ENVIRONMENT: 'comm', PATH: process.env.PATH },
    });
    expect(stdout).toBe('cat serve --flag\n');
  });

  test('uses only options that exec-server has', async () => {
    const lines = pods().flatMap(({ containers: [{ name, args, lifecycle }] }) => {
      if (name === 'redis') return [];
      const preStop = lifecycle.preStop.exec?.command.slice(1);
      return preStop === undefined ? [args] : [args, preStop];
    });
    const used = new Set(
      lines.flatMap(([command, ...args]: string[]) =>
        args.filter((arg) => arg.startsWith('--')).map((arg) => `${command} ${arg.split('=')[0]}`),
      ),
    );
    expect(new Set([...used].map((option) => option.split(' ')[0]))).toEqual(
      new Set(['serve', 'relay', 'drain']),
    );
    for (const command of ['serve', 'relay', 'drain']) {
      const { stdout } = await promisify(execFile)(process.execPath, [BIN, command, '--help']);
      const options = [...stdout.matchAll(/^ +(?:-\w, )?(--[\w-]+)/gm)].map(
        ([, flag]) => `${command} ${flag}`,
      );
      expect(options).toEqual(
        expect.arrayContaining([...used].filter((option) => option.startsWith(`${command} `))),
      );
    }
  });

  test.each([
    ['no URL of the relay', RELAY.slice(1), 'access: relay needs relay.url'],
    ['no secret of the relay', [RELAY[0]!, RELAY[2]!], 'relay.enabled needs relay.secret'],
    ['no tokens of executors', RELAY.slice(0, 2), 'access: relay needs relay.executorTokens'],
    [
      'several relay nodes without Redis',
      [...RELAY, 'redis.enabled=false'],
      'several relay nodes need redis',
    ],
    ['no token of the service', ['access=service'], 'access: service needs service.tokenSecret'],
    ['an unknown access', ['access=none'], 'access must be relay or service'],
    ['an unknown kind', [...RELAY, 'executors.kind=pod'], 'executors.kind must be statefulSet or template'],
    [
      'a sandbox in a sandboxed runtime',
      [...SERVICE, 'sandbox.enabled=true', 'executors.runtimeClassName=gvisor'],
      'sandbox.enabled needs the default runtime',
    ],
  ])('refuses values with %s', async (_name, values, message) => {
    await expect(render(values)).rejects.toThrow(message);
  });
});
