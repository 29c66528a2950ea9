// deploy/helm/tabularium: Helm renders it, the schemas of Kubernetes accept every object, its settings exist, and every value is documented.
// It is not installed in a cluster here (docs/decisions/deployment-checks.md).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { readSettings } from '../../../src/settings/read_settings.ts';
import { chartDirectory, missingTools, outputOf, requireKnownVariables, root } from './tools.ts';

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Spec;
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
}
interface Probe {
  readonly httpGet?: { readonly path: string; readonly scheme?: string };
}
interface Spec {
  readonly replicas?: number;
  readonly serviceName?: string;
  readonly template?: {
    readonly spec: {
      readonly terminationGracePeriodSeconds: number;
      readonly automountServiceAccountToken: boolean;
      readonly containers: readonly {
        readonly image: string;
        readonly args?: readonly string[];
        readonly env: readonly { readonly name: string; readonly value?: string }[];
        readonly livenessProbe?: Probe;
        readonly readinessProbe?: Probe;
        readonly startupProbe?: Probe;
        readonly securityContext: { readonly allowPrivilegeEscalation: boolean };
        readonly resources: { readonly limits: { readonly memory?: string } };
      }[];
    };
  };
}
interface Rendering {
  readonly lint: readonly unknown[];
  readonly error?: string;
  readonly objects: Readonly<Record<string, readonly KubernetesObject[]>>;
  readonly faults: readonly string[];
}

const python = 'python';
const program = join(import.meta.dirname, 'chart.py');
const rendered = new Map<string, Rendering>();

function render(values: object): Rendering {
  const input = JSON.stringify({ chart: chartDirectory, values });
  const known = rendered.get(input) ?? (JSON.parse(outputOf(python, [program], input)) as Rendering);
  rendered.set(input, known);
  return known;
}

const usual = { tls: { existingSecret: 'certificate' }, secret: { existingSecret: 'tabularium' } };
const everything = {
  tls: { existingSecret: 'certificate', caConfigMap: 'authority' },
  secret: { secretKey: 'a2V5' },
  settings: { warehouseQueriesMax: 8, loadFileBytesMax: 20_000_000_000, logLevel: 'debug', spareEngine: false },
  imagePullSecrets: ['registry'],
  ingress: { enabled: true, host: 'warehouse.example', className: 'nginx', tlsSecret: 'public' },
  serviceMonitor: { enabled: true, tokenSecret: 'metrics' },
  networkPolicy: { clients: [{ namespaceSelector: { matchLabels: { team: 'data' } } }] },
  extraEnv: [{ name: 'TABULARIUM_FILE_STORE', value: 's3://bucket/results' }],
  tolerations: [{ key: 'data', operator: 'Exists' }],
  nodeSelector: { disk: 'ssd' },
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', labelSelector: { matchLabels: {} } },
  ],
  priorityClassName: 'high',
  podAnnotations: { a: 'b' },
  podLabels: { c: 'd' },
  postgresql: { enabled: true, password: 'p/w&' },
  clickhouse: { enabled: true, password: 'secret', clusterSecret: 'a<b', shards: 2, replicas: 2 },
};

const all = ({ objects }: Rendering): readonly KubernetesObject[] => Object.values(objects).flat();
const named = (rendering: Rendering, kind: string, name: string): KubernetesObject => {
  const found = all(rendering).filter((each) => each.kind === kind && each.metadata.name === name);
  assert.equal(found.length, 1, `one ${kind} ${name}`);
  return found[0] as KubernetesObject;
};
const containerOf = (rendering: Rendering, name: string) => {
  const container = named(rendering, 'StatefulSet', name).spec.template?.spec.containers[0];
  assert.ok(container);
  return container;
};
const environmentOf = (rendering: Rendering): Readonly<Record<string, string>> =>
  Object.fromEntries(containerOf(rendering, 'demo-tabularium').env.map(({ name, value = '' }) => [name, value]));

describe('the chart', { skip: missingTools }, () => {
  for (const [what, values] of Object.entries({ usual, everything })) {
    test(`renders with ${what} values to objects that Kubernetes accepts`, () => {
      const rendering = render(values);
      assert.equal(rendering.error, undefined);
      assert.deepEqual(rendering.lint, []);
      assert.deepEqual(rendering.faults, []);
      const kinds = new Set(all(rendering).map(({ kind }) => kind));
      for (const kind of ['StatefulSet', 'Service', 'PodDisruptionBudget', 'NetworkPolicy']) assert.ok(kinds.has(kind));
      assert.equal(kinds.has('ServiceMonitor'), values === everything);
      assert.equal(kinds.has('Secret'), values === everything);
    });
  }

  test('is checked by schemas that find faults', () => {
    const { faults } = render({
      ...usual,
      topologySpreadConstraints: [{ maxSkew: '1', topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }],
    });
    assert.match(faults.join(), /is not of type 'integer'/);
  });

  test('installs PostgreSQL and ClickHouse only if asked to', () => {
    const names = all(render(usual)).flatMap(({ kind, metadata }) => (kind === 'StatefulSet' ? [metadata.name] : []));
    assert.deepEqual(names, ['demo-tabularium']);
    const sets = all(render(everything)).filter(({ kind }) => kind === 'StatefulSet');
    assert.deepEqual(Object.fromEntries(sets.map(({ metadata, spec }) => [metadata.name, spec.replicas])), {
      'demo-tabularium': 2,
      'demo-tabularium-postgresql': 1,
      'demo-tabularium-clickhouse': 4,
      'demo-tabularium-keeper': 3,
    });
  });

  test('runs this release with existing settings', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    assert.equal(containerOf(render(usual), 'demo-tabularium').image, `tabularium:${version}`);
    const environment = environmentOf(render(everything));
    requireKnownVariables(Object.keys(environment));
    const { TABULARIUM_CONFIG: _, ...withoutFile } = environment;
    const settings = readSettings([], withoutFile);
    assert.equal(settings.warehouseQueriesMax, 8);
    assert.equal(settings.loadFileBytesMax, 20_000_000_000);
    assert.equal(settings.spareEngine, false);
    assert.equal(settings.fileStore, 's3://bucket/results');
    assert.equal(settings.insecure, false);
    assert.equal(settings.clusterHosts.split(',').length, 4);
    assert.equal(settings.internalUrl, 'https://$(POD_NAME).demo-tabularium-servers.$(POD_NAMESPACE).svc:8030');
    assert.equal(environmentOf(render({ ...usual, tls: { insecure: true } })).TABULARIUM_INSECURE, 'true');
  });

  test('probes the endpoints that exist, and gives servers time to stop', () => {
    const { spec } = named(render(usual), 'StatefulSet', 'demo-tabularium');
    const container = containerOf(render(usual), 'demo-tabularium');
    assert.deepEqual(container.livenessProbe?.httpGet, { path: '/livez', port: 'api', scheme: 'HTTPS' });
    for (const probe of [container.readinessProbe, container.startupProbe])
      assert.deepEqual(probe?.httpGet, { path: '/readyz', port: 'api', scheme: 'HTTPS' });
    const seconds = spec.template?.spec.terminationGracePeriodSeconds ?? 0;
    assert.ok(seconds * 1000 > readSettings([], {}).shutdownTimeoutMs);
  });

  test('gives every pod limits, and no token or further privileges', () => {
    for (const { kind, metadata, spec } of all(render(everything))) {
      if (kind !== 'StatefulSet') continue;
      assert.equal(spec.template?.spec.automountServiceAccountToken, false);
      for (const container of spec.template?.spec.containers ?? []) {
        assert.equal(container.securityContext.allowPrivilegeEscalation, false, metadata.name);
        assert.ok(container.resources.limits.memory, metadata.name);
        assert.match(container.image, /:\d/);
      }
    }
  });

  test('writes secrets into Secrets only', () => {
    const texts = all(render(everything)).filter(({ kind }) => kind !== 'Secret');
    for (const secret of ['a2V5', 'p/w&', 'p%2Fw%26', 'a<b', 'a&lt;b'])
      assert.ok(!JSON.stringify(texts).includes(secret), secret);
    const { stringData } = named(render(everything), 'Secret', 'demo-tabularium');
    const { store } = JSON.parse(stringData?.['config.json'] ?? '') as { store: string };
    assert.equal(decodeURIComponent(new URL(store).password), 'p/w&');
  });

  test('refuses values that would start servers which cannot work', () => {
    const refused: readonly (readonly [object, RegExp])[] = [
      [{}, /tls\.existingSecret/],
      [{ tls: { insecure: true } }, /secret\.existingSecret/],
      [{ ...usual, secret: { storeUrl: 'postgres://u:p@h/d' } }, /secret\.secretKey/],
      [{ ...usual, secret: { existingSecret: 'a', storeUrl: 'postgres://u:p@h/d' } }, /must not be set/],
      [{ ...usual, postgresql: { enabled: true, password: 'p' } }, /postgresql\.enabled must not be set/],
      [{ ...usual, clickhouse: { enabled: true } }, /clickhouse\.password/],
      [{ ...usual, ingress: { enabled: true, host: 'warehouse.example' } }, /networkPolicy\.clients/],
      [{ ...usual, serviceMonitor: { enabled: true } }, /networkPolicy\.clients/],
      [{ ...usual, service: { type: 'LoadBalancer' } }, /networkPolicy\.clients/],
      [{ ...usual, settings: { dataDir: '/x' } }, /settings\.dataDir is set by the chart/],
      [{ ...usual, replicas: 0 }, /replicas/],
      [{ ...usual, replica: 2 }, /replica/],
      [{ ...usual, persistence: { accessModes: ['ReadWriteMany'] } }, /accessModes/],
    ];
    for (const [values, reason] of refused) assert.match(render(values).error ?? '', reason, JSON.stringify(values));
  });

  test('documents every value', () => {
    const lines = readFileSync(join(chartDirectory, 'values.yaml'), 'utf8').split('\n');
    let found = 0;
    lines.forEach((line, i) => {
      const [, indent = '', name, value = ''] = /^( *)(\w+):(.*)$/.exec(line) ?? [];
      // A value without one of its own on the line is a group; its members are documented.
      const isGroup = value.trim() === '';
      if (name === undefined || isGroup) return;
      found++;
      assert.match(
        lines[i - 1] ?? '',
        new RegExp(`^${indent}# \\S`),
        `values.yaml:${i + 1}: ${name} has a comment above`,
      );
    });
    assert.ok(found > 60, `${found} values`);
  });

  test('is YAML without a fault', () => {
    const rules =
      '{extends: default, rules: {line-length: {max: 200}, document-start: disable, empty-lines: {max: 1}}}';
    for (const name of ['values.yaml', 'Chart.yaml'])
      assert.equal(outputOf('yamllint', ['--strict', '--config-data', rules, join(chartDirectory, name)]), '');
  });
});
