import type { KubernetesObject } from './kubernetes-objects.ts';

// biome-ignore lint/suspicious/noExplicitAny: the fields differ from kind to kind.
type Fields = any;

/** The pods that an object creates. */
interface PodTemplate {
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: Fields;
  readonly claims: readonly string[];
}

/** A label that Kubernetes gives to the pods of a StatefulSet. */
const POD_NAME = 'statefulset.kubernetes.io/pod-name';

/**
 * References between objects that lead nowhere, one line for each: labels, volumes, ports, Services, Secrets, ConfigMaps and files. A cluster
 * accepts such objects. `secrets` exist besides the rendered ones.
 */
export function brokenReferences(objects: readonly KubernetesObject[], secrets: readonly string[]): string[] {
  const pods = objects.flatMap(podsOf);
  const exists = (kind: string, name: string) =>
    objects.some((object) => object.kind === kind && object.metadata.name === name) ||
    (kind === 'Secret' && secrets.includes(name));
  return objects.flatMap((object) => {
    const from = `${object.kind} ${object.metadata.name}`;
    const named = namesIn(object).filter(([kind, name]) => !exists(kind, name));
    return [
      ...named.map(([kind, name]) => `${from}: there is no ${kind} ${name}`),
      ...[
        ...selectionProblems(object, pods),
        ...podsOf(object).flatMap((pod) => podProblems(pod, objects)),
      ].map((problem) => `${from}: ${problem}`),
      ...ingressProblems(object, objects).map((problem) => `${from}: ${problem}`),
    ];
  });
}

function podsOf({ kind, metadata, spec }: KubernetesObject): PodTemplate[] {
  const template = spec?.template ?? spec?.podTemplate;
  if (template === undefined) return [];
  const claims = (spec.volumeClaimTemplates ?? []).map((claim: Fields) => claim.metadata.name);
  const names = Array.from({ length: spec.replicas ?? 0 }, (_, index) => `${metadata.name}-${index}`);
  const labels = {
    ...template.metadata.labels,
    ...(kind === 'StatefulSet' ? { [POD_NAME]: names.join() } : {}),
  };
  return [{ owner: `${kind} ${metadata.name}`, labels, spec: template.spec, claims }];
}

function selects(selector: Readonly<Record<string, string>>, { labels }: PodTemplate): boolean {
  return Object.entries(selector).every(([key, value]) =>
    key === POD_NAME ? labels[key]?.split(',').includes(value) : labels[key] === value,
  );
}

/** The objects that an object names, by kind. */
function namesIn(object: KubernetesObject): (readonly [kind: string, name: string])[] {
  const { kind, spec } = object;
  const ofPods = podsOf(object).flatMap(({ spec: pod }) => [
    ...(pod.volumes ?? []).flatMap(({ secret, configMap }: Fields) => [
      ...(secret === undefined ? [] : [['Secret', secret.secretName] as const]),
      ...(configMap === undefined ? [] : [['ConfigMap', configMap.name] as const]),
    ]),
    ...(pod.imagePullSecrets ?? []).map(({ name }: Fields) => ['Secret', name] as const),
    ...pod.containers.flatMap(({ env = [], envFrom = [] }: Fields) =>
      [...env.map(({ valueFrom }: Fields) => valueFrom ?? {}), ...envFrom].flatMap((source: Fields) => [
        ...[source.secretKeyRef, source.secretRef]
          .filter(Boolean)
          .map(({ name }) => ['Secret', name] as const),
        ...[source.configMapKeyRef, source.configMapRef]
          .filter(Boolean)
          .map(({ name }) => ['ConfigMap', name] as const),
      ]),
    ),
  ]);
  if (kind === 'StatefulSet') return [['Service', spec.serviceName], ...ofPods];
  if (kind === 'SandboxWarmPool') return [['SandboxTemplate', spec.sandboxTemplateRef.name]];
  if (kind === 'Ingress')
    return (spec.tls ?? []).map(({ secretName }: Fields) => ['Secret', secretName] as const);
  return ofPods;
}

function ingressProblems({ kind, spec }: KubernetesObject, objects: readonly KubernetesObject[]): string[] {
  if (kind !== 'Ingress') return [];
  const backends = spec.rules.flatMap(({ http }: Fields) =>
    http.paths.map(({ backend }: Fields) => backend.service),
  );
  return backends
    .filter(
      ({ name, port }: Fields) =>
        !objects.some(
          (object) =>
            object.kind === 'Service' &&
            object.metadata.name === name &&
            object.spec.ports.some((candidate: Fields) => candidate.name === port.name),
        ),
    )
    .map(({ name, port }: Fields) => `there is no Service ${name} with the port ${port.name}`);
}

/** Selectors that do not select the pods of one object, and ports that the selected pods do not have. */
function selectionProblems(object: KubernetesObject, pods: readonly PodTemplate[]): string[] {
  const { kind, spec } = object;
  const own = podsOf(object);
  const selector = {
    Service: spec?.selector,
    PodDisruptionBudget: spec?.selector?.matchLabels,
    NetworkPolicy: spec?.podSelector?.matchLabels,
    StatefulSet: spec?.selector?.matchLabels,
    Deployment: spec?.selector?.matchLabels,
  }[kind];
  if (selector === undefined) return kind === 'Service' ? ['it has no selector'] : [];
  const selected = (own.length > 0 ? own : pods).filter((pod) => selects(selector, pod));
  if (selected.length !== 1) return [`${JSON.stringify(selector)} selects ${selected.length} kinds of pods`];
  const ports: (string | number)[] =
    kind === 'Service'
      ? spec.ports.map(({ targetPort }: Fields) => targetPort)
      : (spec.ingress ?? []).flatMap((rule: Fields) => (rule.ports ?? []).map(({ port }: Fields) => port));
  const peers = (spec.ingress ?? [])
    .flatMap((rule: Fields) => (rule.from ?? []).map(({ podSelector }: Fields) => podSelector?.matchLabels))
    .filter((labels: Fields) => labels?.['app.kubernetes.io/instance'] !== undefined);
  return [
    ...selected.flatMap(({ owner, spec: pod }) =>
      ports.filter((port) => !hasPort(pod, port)).map((port) => `${owner} has no port ${port}`),
    ),
    ...peers
      .filter((labels: Fields) => !pods.some((pod) => selects(labels, pod)))
      .map((labels: Fields) => `${JSON.stringify(labels)} of a peer selects no pod`),
  ];
}

function hasPort({ containers }: Fields, port: string | number): boolean {
  return containers.some(({ ports = [] }: Fields) =>
    ports.some(({ name, containerPort }: Fields) => name === port || containerPort === port),
  );
}

/** References inside of a pod, and from its variables and arguments. */
function podProblems(pod: PodTemplate, objects: readonly KubernetesObject[]): string[] {
  const { spec, claims, labels } = pod;
  const volumes = [...(spec.volumes ?? []).map(({ name }: Fields) => name), ...claims];
  const spread = (spec.topologySpreadConstraints ?? [])
    .map(({ labelSelector }: Fields) => labelSelector.matchLabels)
    .filter((selector: Fields) => !selects(selector, pod))
    .map((selector: Fields) => `${JSON.stringify(selector)} does not select ${JSON.stringify(labels)}`);
  const inContainers = spec.containers.flatMap((container: Fields) => [
    ...(container.volumeMounts ?? [])
      .filter(({ name }: Fields) => !volumes.includes(name))
      .map(({ name }: Fields) => `there is no volume ${name}`),
    ...volumes
      .filter((name) => !container.volumeMounts?.some((mount: Fields) => mount.name === name))
      .map((name) => `the volume ${name} is not mounted`),
    ...['startupProbe', 'readinessProbe', 'livenessProbe'].flatMap((probe) => {
      const port = (container[probe]?.httpGet ?? container[probe]?.tcpSocket)?.port;
      return port === undefined || hasPort(spec, port) ? [] : [`${probe}: there is no port ${port}`];
    }),
    ...argumentProblems(container, spec),
    ...storeProblems(container, objects),
  ]);
  return [...spread, ...inContainers];
}

/** The arguments of exec-server name the ports of the container, mounted files, and the pid file that preStop reads. */
function argumentProblems({ args, ports, volumeMounts, lifecycle, name }: Fields, pod: Fields): string[] {
  if (name === 'redis') return [];
  const value = (flag: string, list: readonly string[]) =>
    list.find((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1) ?? list[list.indexOf(flag) + 1];
  const listened = args
    .flatMap((arg: string) => /^--(?:metrics-)?listen=.*:(\d+)$/.exec(arg)?.[1] ?? [])
    .map(Number);
  const declared = ports.map(({ containerPort }: Fields) => containerPort);
  const problems: string[] = [];
  if (listened.sort().join() !== declared.sort().join())
    problems.push(`it listens on ${listened}, and declares ${declared}`);
  for (const arg of args) {
    const [, file] = /^--[a-z-]+-file=(\/.*)$/.exec(arg) ?? [];
    const mounted = volumeMounts.some(
      ({ mountPath }: Fields) => file === mountPath || file?.startsWith(`${mountPath}/`),
    );
    if (file !== undefined && !mounted) problems.push(`no volume is mounted at ${file}`);
  }
  const preStop: readonly string[] | undefined = lifecycle?.preStop?.exec?.command;
  if (preStop === undefined) return problems;
  const [read, written] = [value('--pid-file', preStop), value('--pid-file', args)];
  if (read !== written) problems.push(`preStop reads ${read}, and the server writes ${written}`);
  const seconds = Number.parseInt(value('--timeout', preStop)!, 10);
  if (!(pod.terminationGracePeriodSeconds > seconds))
    problems.push(`the pod ends before ${seconds} s of preStop`);
  return problems;
}

/** The Redis that a variable names is a Service of the chart. */
function storeProblems({ env = [] }: Fields, objects: readonly KubernetesObject[]): string[] {
  const url = env.find(({ name }: Fields) => name === 'EXEC_SERVER_RELAY_STORE')?.value;
  if (url === undefined) return [];
  const { hostname, port } = new URL(url);
  const service = objects.find(({ kind, metadata }) => kind === 'Service' && metadata.name === hostname);
  const found = service?.spec.ports.some((candidate: Fields) => String(candidate.port) === port);
  return found ? [] : [`there is no Service ${hostname} with the port ${port}`];
}
