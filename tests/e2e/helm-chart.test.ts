import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { docBlocks } from '../../scripts/doc-blocks.mjs';
import { CHART, find, helmMissing, RELAY, render, renderAll, SERVICE } from '../support/helm-chart.ts';
import { type KubernetesObject, problemsOf } from '../support/kubernetes-objects.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

const why = helmMissing === null ? '' : ` (skipped: ${helmMissing})`;

const METRICS = { protocol: 'TCP', port: 9464 };

test('the chart has the version of the package', () => {
  const { version } = JSON.parse(readFileSync(join(CHART, '../../../package.json'), 'utf8'));
  const chart = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8'));
  expect([chart.version, chart.appVersion]).toEqual([version, version]);
});

describe.skipIf(helmMissing !== null)(`the Helm chart${why}`, () => {
  let rendered: ReadonlyMap<string, readonly KubernetesObject[]>;

  beforeAll(async () => {
    rendered = await renderAll();
  });

  const all = () => [...rendered.values()].flat();
  const object = (installation: string, kind: string, name: string) =>
    find(rendered.get(installation)!, kind, name);
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

  test('routes the path of the relay and the paths of its nodes below it', async () => {
    const objects = await render(['relay.url=https://example.com/base/', ...RELAY.slice(1)]);
    const { rules } = find(objects, 'Ingress', 'box-relay').spec;
    const paths = rules[0].http.paths.map(({ path }: { path: string }) => path);
    expect(paths).toEqual(['/base/box-relay-0/', '/base/box-relay-1/', '/base']);
    const relay = find(objects, 'StatefulSet', 'box-relay').spec.template.spec;
    expect(relay.containers[0].args).toEqual(
      expect.arrayContaining([
        '--public-url=https://example.com/base',
        '--node-url=https://example.com/base/$(POD_NAME)',
      ]),
    );
  });

  test('renders names that YAML would read as other types, and large numbers', async () => {
    const names = [
      'redis.urlSecret=1',
      'relay.secret=2',
      'relay.executorTokens=3',
      'relay.ingress.tlsSecret=4',
    ];
    const objects = await render(
      // A file of values has numbers with a floating point.
      [RELAY[0]!, ...names, 'relay.ingress.className=5', '--set-json=executors.drainSeconds=6e5'],
      'true',
    );
    expect(await problemsOf(objects)).toBe('');
    const { spec } = find(objects, 'StatefulSet', 'true').spec.template;
    expect(spec.terminationGracePeriodSeconds).toBe(600_030);
    const [{ args, lifecycle }] = spec.containers;
    expect([...args, ...lifecycle.preStop.exec.command]).toEqual(
      expect.arrayContaining(['--drain-timeout=600000s', '600000s']),
    );
  });

  test('renders every option of the executor as a string', async () => {
    const options = ['--set-json=executors.args=["--max-connections",1e7,true,"a: \\"b\\" #c"]'];
    const objects = await render([...SERVICE, ...options]);
    const { args } = find(objects, 'StatefulSet', 'box').spec.template.spec.containers[0];
    expect(args.slice(-4)).toEqual(['--max-connections', '10000000', 'true', 'a: "b" #c']);
  });

  test('ends programs without draining if the drain time is 0', async () => {
    const objects = await render([...SERVICE, 'executors.drainSeconds=0']);
    const { spec } = find(objects, 'StatefulSet', 'box').spec.template;
    expect([spec.terminationGracePeriodSeconds, spec.containers[0].lifecycle]).toEqual([30, undefined]);
  });

  test('keeps the name of an executor while it drains', () => {
    const { clusterIP, publishNotReadyAddresses } = object(
      'executors behind a service',
      'Service',
      'box',
    ).spec;
    expect([clusterIP, publishNotReadyAddresses]).toEqual(['None', true]);
  });

  test('renders no Secret, and nothing connects to an executor behind a relay', () => {
    expect(all().filter(({ kind }) => kind === 'Secret')).toEqual([]);
    const policy = object('executors behind a relay', 'NetworkPolicy', 'box').spec;
    expect([policy.policyTypes, policy.ingress]).toEqual([['Ingress', 'Egress'], undefined]);
  });

  test('lets nothing connect without clients, and metrics only from their clients', async () => {
    const rules = (installation: string, name: string) =>
      object(installation, 'NetworkPolicy', name).spec.ingress;
    expect(rules('a relay without clients', 'box-relay')).toBeUndefined();
    expect(rules('a service without clients', 'box')).toBeUndefined();
    const [everyPod, ...others] = rules('executors behind a service', 'box');
    expect([everyPod.from, others]).toEqual([[{ podSelector: {} }], []]);

    const monitoring = 'metrics.clients[0].podSelector.matchLabels.app=prometheus';
    const objects = await render([...RELAY, 'relay.clients=null', monitoring]);
    const policies = objects.filter(({ kind }) => kind === 'NetworkPolicy');
    const scraped = [{ from: [{ podSelector: { matchLabels: { app: 'prometheus' } } }], ports: [METRICS] }];
    expect(
      Object.fromEntries(policies.map(({ metadata, spec }) => [metadata.name, spec.ingress])),
    ).toMatchObject({ box: scraped, 'box-relay': scraped });
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

  test('gives an executor behind a relay the token of its pod, and no other', async () => {
    const [container] = object('executors behind a relay', 'StatefulSet', 'box').spec.template.spec
      .containers;
    const file = '/run/secrets/exec-server/token';
    expect(container.volumeMounts).toContainEqual({
      name: 'credentials',
      mountPath: file,
      subPathExpr: '$(ENVIRONMENT)',
      readOnly: true,
    });
    const named = { name: 'ENVIRONMENT', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } };
    expect(container.env).toContainEqual(named);

    const [script, ...rest] = container.command.slice(container.command.indexOf('-c') + 1);
    const start = (token: string) => {
      // Kubernetes replaces $$ by $.
      const line = script.replaceAll('$$', '$').replace(file, token);
      const program = line.replace(
        'exec exec-server',
        'sh -c \'echo "$EXEC_SERVER_API_KEY" "$@"\' exec-server',
      );
      return promisify(execFile)('sh', ['-c', program, ...rest, 'serve', '--flag']);
    };
    expect((await start('/proc/self/comm')).stdout).toBe('cat serve --flag\n');
    // The kubelet mounts an empty folder when the Secret has no token for the pod.
    await expect(start('/proc/self')).rejects.toMatchObject({
      stdout: '',
      stderr: expect.stringContaining('Is a directory'),
    });
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
    ['an unknown access', ['access=none'], "at '/access': value must be one of 'relay', 'service'"],
    ['an unknown kind', [...RELAY, 'executors.kind=pod'], "value must be one of 'statefulSet', 'template'"],
    [
      'a sandbox in a sandboxed runtime',
      [...SERVICE, 'sandbox.enabled=true', 'executors.runtimeClassName=gvisor'],
      'sandbox.enabled needs the default runtime',
    ],
    ['a drain time with a unit', [...RELAY, 'executors.drainSeconds=10m'], 'got string, want integer'],
    ['a drain time below zero', [...RELAY, 'executors.drainSeconds=-5'], 'minimum: got -5, want 0'],
    [
      'a drain time that the server refuses',
      [...RELAY, 'executors.drainSeconds=604801'],
      'maximum: got 604,801',
    ],
    ['no drain time', [...RELAY, 'executors.drainSeconds=null'], "missing property 'drainSeconds'"],
    ['no kind of executors', [...RELAY, 'executors.kind=null'], "missing property 'kind'"],
    ['no access', [...RELAY, 'access=null'], "missing property 'access'"],
    ['a switch that is no boolean', [...RELAY, 'sandbox.enabled=no-thanks'], 'got string, want boolean'],
    [
      'a value that the chart does not have',
      [...RELAY, 'relay.typo=1'],
      "additional properties 'typo' not allowed",
    ],
    ['a relay URL without a scheme', ['relay.url=relay.example', ...RELAY.slice(1)], "at '/relay/url'"],
    ['a relay URL without TLS', ['relay.url=http://relay.example', ...RELAY.slice(1)], "at '/relay/url'"],
    ['a port that is none', [...SERVICE, 'service.port=abc'], "at '/service/port'"],
    ['the port of the metrics', [...SERVICE, 'service.port=9464'], "at '/service/port'"],
  ])('refuses values with %s', async (_name, values, message) => {
    await expect(render(values)).rejects.toThrow(message);
  });

  test.each(['123', 'a.b'])('refuses the release name %s, which Services cannot have', async (name) => {
    await expect(render(RELAY, name)).rejects.toThrow(`the release name ${name} must start with a letter`);
  });
});
