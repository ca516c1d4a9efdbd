import { beforeAll, describe, expect, test } from 'vitest';
import { find, helmMissing, INSTALLATIONS, RELAY, renderAll } from '../support/helm-chart.ts';
import type { KubernetesObject } from '../support/kubernetes-objects.ts';
import { brokenReferences } from '../support/kubernetes-references.ts';

/** Values that are names of Secrets. */
const SECRETS = [
  'relay.secret',
  'relay.executorTokens',
  'service.tokenSecret',
  'redis.urlSecret',
  'relay.ingress.tlsSecret',
];
const POD_NAME = 'statefulset.kubernetes.io/pod-name';

const why = helmMissing === null ? '' : ` (skipped: ${helmMissing})`;

describe.skipIf(helmMissing !== null)(`objects of the Helm chart${why}`, () => {
  let rendered: ReadonlyMap<string, readonly KubernetesObject[]>;
  beforeAll(async () => {
    rendered = await renderAll();
  });

  const secretsOf = (values: readonly string[]) =>
    values.map((value) => value.split('=')).flatMap(([key, name]) => (SECRETS.includes(key!) ? [name!] : []));

  test.each(Object.entries(INSTALLATIONS))('every reference leads to an object: %s', (name, values) => {
    expect(brokenReferences(rendered.get(name)!, secretsOf(values))).toEqual([]);
  });

  // biome-ignore lint/suspicious/noExplicitAny: each change is of other fields.
  type Change = (spec: any) => void;
  test.each<[string, string, Change, string]>([
    [
      'Service',
      'box-relay',
      ({ selector }) => delete selector['app.kubernetes.io/component'],
      'selects 3 kinds',
    ],
    [
      'Service',
      'box-relay-1',
      ({ selector }) => Object.assign(selector, { [POD_NAME]: 'box-2' }),
      'selects 0 kinds',
    ],
    ['Service', 'box', ({ ports }) => Object.assign(ports[0], { targetPort: 'http' }), 'has no port http'],
    [
      'PodDisruptionBudget',
      'box',
      ({ selector }) => Object.assign(selector.matchLabels, { x: 'y' }),
      '"x":"y"',
    ],
    [
      'NetworkPolicy',
      'box',
      ({ podSelector }) => Object.assign(podSelector.matchLabels, { x: 'y' }),
      '"x":"y"',
    ],
    [
      'NetworkPolicy',
      'box-redis',
      ({ ingress }) => Object.assign(ingress[0].ports[0], { port: 1 }),
      'no port 1',
    ],
    [
      'NetworkPolicy',
      'box-redis',
      ({ ingress }) => Object.assign(ingress[0].from[0].podSelector.matchLabels, { x: 'y' }),
      'of a peer selects no pod',
    ],
    ['StatefulSet', 'box', (spec) => Object.assign(spec, { serviceName: 'x' }), 'no Service x'],
    ['StatefulSet', 'box', ({ selector }) => Object.assign(selector.matchLabels, { x: 'y' }), '"x":"y"'],
    [
      'StatefulSet',
      'box',
      (spec) => Object.assign(spec, { volumeClaimTemplates: [] }),
      'no volume workspace',
    ],
    ['StatefulSet', 'box', inPod(({ volumes }) => volumes.push({ name: 'x' })), 'volume x is not mounted'],
    [
      'StatefulSet',
      'box',
      inPod((pod) => Object.assign(pod, { terminationGracePeriodSeconds: 9 })),
      'the pod ends',
    ],
    [
      'StatefulSet',
      'box',
      inPod(({ containers: [{ args }] }) => args.splice(args.indexOf('--pid-file=/tmp/exec-server.pid'), 1)),
      'preStop reads /tmp/exec-server.pid',
    ],
    [
      'StatefulSet',
      'box',
      inPod(({ containers: [{ livenessProbe }] }) => Object.assign(livenessProbe.httpGet, { port: 'x' })),
      'livenessProbe: there is no port x',
    ],
    [
      'StatefulSet',
      'box-relay',
      inPod(({ volumes }) => Object.assign(volumes[0].secret, { secretName: 'x' })),
      'no Secret x',
    ],
    [
      'StatefulSet',
      'box-relay',
      inPod(({ containers: [{ env }] }) =>
        env.push({ name: 'A', valueFrom: { configMapKeyRef: { name: 'x' } } }),
      ),
      'no ConfigMap x',
    ],
    [
      'StatefulSet',
      'box-relay',
      inPod(({ containers: [{ volumeMounts }] }) => Object.assign(volumeMounts[0], { mountPath: '/x' })),
      'no volume is mounted at /run/secrets/relay/secret',
    ],
    [
      'StatefulSet',
      'box-relay',
      inPod(({ containers: [{ ports }] }) => ports.pop()),
      'it listens on 4000,9464',
    ],
    [
      'StatefulSet',
      'box-relay',
      inPod(({ containers: [{ env }] }) => Object.assign(env.at(-1), { value: 'redis://x:6379' })),
      'no Service x with the port 6379',
    ],
    [
      'Ingress',
      'box-relay',
      ({ rules }) => Object.assign(rules[0].http.paths[0].backend.service, { name: 'x' }),
      'no Service x with the port clients',
    ],
  ])('a broken reference of %s %s is found (%#)', (kind, name, change, problem) => {
    const objects = structuredClone(rendered.get('executors behind a relay')!);
    change(find(objects, kind, name).spec);
    expect(brokenReferences(objects, secretsOf(RELAY)).join('\n')).toContain(problem);
  });

  function inPod(change: Change): Change {
    return ({ template }) => change(template.spec);
  }
});
