import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { example, helm, manifests, manifestsOfVersion, notes, REQUIRED, render } from './helm.ts';
import { ofKind, workload, workloads } from './manifests.ts';
import { violations } from './policy.ts';
import { CHART, parseYaml, read } from './repository.ts';
import { schemaErrors } from './schemas.ts';

const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  default: [],
  production: ['--values', example('production.values.yaml')],
  tryout: ['--values', example('tryout.values.yaml')],
  gateway: ['--values', example('gateway.values.yaml')],
};

describe.each(Object.entries(VARIANTS))('the chart with %s values', (name, options) => {
  it('passes helm lint --strict', async () => {
    const { ok, output } = await helm('lint', '--strict', CHART, ...REQUIRED, ...options);
    expect(output).toContain('1 chart(s) linted, 0 chart(s) failed');
    expect(ok).toBe(true);
  });

  it('renders the golden file: review the difference, then run `vitest --update`', async () => {
    const { ok, output } = await render(...options);
    expect(ok).toBe(true);
    await expect(output).toMatchFileSnapshot(`../goldens/${name}.yaml`);
  });

  it('renders manifests that match their schemas, without unknown fields', async () => {
    const all = await manifests(...options);
    expect(all.length).toBeGreaterThan(6);
    const wrong = all.flatMap((one) =>
      schemaErrors(one).map((error) => `${one.kind} ${one.metadata.name}: ${error}`),
    );
    expect(wrong).toEqual([]);
  });

  it('follows the policy rules', async () => {
    expect(violations(await manifests(...options))).toEqual([]);
  });
});

describe('a new version of the chart with the same image', () => {
  it('restarts no pod, and changes no Job, which is immutable', async () => {
    const options = ['--set', 'migration.kind=job'];
    const [now, next] = await Promise.all([manifests(...options), manifestsOfVersion('99.0.0', ...options)]);
    const podsOf = (all: typeof now, kinds: readonly string[]) =>
      all
        .filter(({ kind }) => kinds.includes(kind))
        .map(({ metadata, spec }) => [metadata.name, spec.template]);
    const running = podsOf(now, ['Deployment', 'StatefulSet']);
    expect(running).toHaveLength(3);
    expect(podsOf(next, ['Deployment', 'StatefulSet'])).toEqual(running);
    const nameOfJob = (all: typeof now) => all.find(({ kind }) => kind === 'Job')?.metadata.name;
    expect(nameOfJob(next)).toMatch(/-migrate-[0-9a-f]{10}$/);
    expect(nameOfJob(next)).not.toBe(nameOfJob(now));
  });
});

const OIDC = 'controlPlane.oidc.issuer=https://login.example';
const AUDIENCE = 'controlPlane.oidc.audiences[0]=weighbridge';
const SCOPES = 'controlPlane.oidc.scopeMap.admins[0]=operator';

describe('values', () => {
  it.each([
    ['a misspelt name', 'dataPlane.replica=3', 'replica is not allowed'],
    ['a misspelt name at the top level', 'metring.replicas=3', 'metring is not allowed'],
    ['a misspelt setting', 'dataPlane.settings.BODY_LIMIT_BYTE=1024', 'BODY_LIMIT_BYTE is not allowed'],
    ['a value out of range', 'metering.settings.LEDGER_RETENTION_DAYS=3', 'greater than or equal to 35'],
    ['a value that was removed', 'networkPolicy.inferenceFrom=null', 'inferenceFrom is required'],
    ['an empty list of databases', 'networkPolicy.database.to=', 'networkPolicy.database.to'],
    ['plain text without a token', 'tls.enabled=false,secrets.keys.controlPlaneToken=', 'controlPlaneToken'],
    ['mutual TLS without a token', 'secrets.keys.controlPlaneToken=', 'controlPlaneToken'],
    ['metrics on the port of tenants', 'monitoring.metricsPort=8080', 'monitoring.metricsPort'],
    [
      'a scrape without metrics',
      'monitoring.metricsPort=0,monitoring.podMonitor.enabled=true',
      'monitoring.metricsPort',
    ],
    ['an Ingress without a host', 'exposure.kind=ingress', 'exposure.host'],
    ['an HTTPRoute without a gateway', 'exposure.kind=httpRoute,exposure.host=a.example', 'parentRefs'],
    ['KEDA without NATS', 'metering.autoscaling.kind=keda', 'natsMonitoring'],
    ['two NATS servers', 'nats.replicas=2', 'nats.replicas'],
    ['an OIDC issuer without an audience', `${OIDC},${SCOPES}`, 'controlPlane.oidc.audiences'],
    [
      'sign-in to the console without the secret of its client',
      `${OIDC},${SCOPES},controlPlane.oidc.clientId=console`,
      'secrets.keys.oidcClientSecret',
    ],
    [
      'sign-in to the console without its address',
      `${OIDC},${SCOPES},controlPlane.oidc.clientId=console,secrets.keys.oidcClientSecret=client`,
      'controlPlane.settings.PUBLIC_URL',
    ],
    ['a client without an issuer', 'controlPlane.oidc.clientId=console', 'controlPlane.oidc.clientId'],
    ['an OIDC issuer without scopes', `${OIDC},${AUDIENCE}`, 'controlPlane.oidc.scopeMap'],
    [
      'an OIDC issuer without TLS',
      'controlPlane.oidc.issuer=http://login.example',
      'controlPlane.oidc.issuer',
    ],
    ['an unknown scope', `${OIDC},${AUDIENCE},${SCOPES}s`, 'controlPlane.oidc.scopeMap.admins.0'],
  ])('refuse %s', async (_what, set, message) => {
    const { ok, output } = await render('--set', set);
    expect(output).toContain(message);
    expect(ok).toBe(false);
  });

  it('refuse to guess whose image it is', async () => {
    const { ok, output } = await render('--set', 'image.repository=');
    expect([ok, output]).toEqual([false, expect.stringContaining('Set image.repository to')]);
  });

  it.each([
    ['of the database', 'database.url=postgresql://weighbridge:hunter22@db/weighbridge'],
    ['in the address of NATS', 'nats.url=nats://weighbridge:hunter22@nats:4222'],
    ['as a setting', 'controlPlane.settings.WEIGHBRIDGE_PEPPER=hunter22hunter22hunter22hunter22'],
    ['of a vendor', 'controlPlane.settings.OPENAI_API_KEY=sk-hunter22'],
    [
      'of a vendor in its address',
      'controlPlane.settings.OPENAI_BASE_URL=https://me:hunter22@gpu.example/v1',
    ],
    [
      'beside a reference',
      'controlPlane.secretEnv[0].name=OPENAI_API_KEY,controlPlane.secretEnv[0].value=hunter22',
    ],
    ['as a key', 'secrets.bootstrapKey=sk-svc-hunter22'],
  ])('refuse a secret in plain text: %s', async (_what, set) => {
    const { ok, output } = await render('--set', set);
    expect(ok).toBe(false);
    expect(output).not.toContain('kind: Deployment');
  });

  it('have a default for each name of the schema, and no other names', async () => {
    const values = parseYaml(await read('deploy/helm/weighbridge/values.yaml'))[0];
    const schema = JSON.parse(await read('deploy/helm/weighbridge/values.schema.json'));
    expect(differingNames(schema, values, '')).toEqual([]);
  });

  it('that look like numbers stay strings where strings are expected', async () => {
    const names = ['database.existingSecret', 'database.key', 'tls.dataPlaneSecret', 'serviceAccount.name'];
    const more = [
      'exposure.host',
      'exposure.ingress.className',
      'dataPlane.spool.storageClass',
      'fullnameOverride',
    ];
    const set = [...names, ...more, 'image.pullSecrets[0]'].map((name) => `${name}=123`);
    const all = await manifests('--set', 'exposure.kind=ingress', '--set-string', set.join());
    expect(all.flatMap(schemaErrors)).toEqual([]);
    expect(violations(all)).toEqual([]);
  });

  it('of the OIDC issuer reach the control plane in its format, and no other app', async () => {
    const all = await manifests(
      '--set',
      `${OIDC},${AUDIENCE},controlPlane.oidc.audiences[1]=other,${SCOPES}`,
    );
    const env = (app: string) =>
      (workload(all, app).pod.containers[0]?.env ?? []).filter(({ name }) => name.startsWith('OIDC_'));
    expect(env('control-plane')).toEqual([
      { name: 'OIDC_ISSUER', value: 'https://login.example' },
      { name: 'OIDC_AUDIENCE', value: 'weighbridge,other' },
      { name: 'OIDC_PRINCIPAL_CLAIM', value: 'sub' },
      { name: 'OIDC_SCOPES_CLAIM', value: 'groups' },
      { name: 'OIDC_SCOPE_MAP', value: '{"admins":["operator"]}' },
      { name: 'OIDC_CLOCK_TOLERANCE_SECONDS', value: '30' },
    ]);
    expect([...env('data-plane'), ...env('metering'), ...env('migrate')]).toEqual([]);
  });

  it('of the client that signs people in need no audience, and its secret is a reference', async () => {
    const all = await manifests(
      '--set',
      `${OIDC},${SCOPES},controlPlane.oidc.clientId=console,controlPlane.oidc.signInName=Login,secrets.keys.oidcClientSecret=client,controlPlane.settings.PUBLIC_URL=https://llm.example.com`,
    );
    const env = (workload(all, 'control-plane').pod.containers[0]?.env ?? []) as { name: string }[];
    expect(env.filter(({ name }) => /^OIDC_(AUDIENCE|CLIENT|SIGN)/.test(name))).toEqual([
      { name: 'OIDC_CLIENT_ID', value: 'console' },
      {
        name: 'OIDC_CLIENT_SECRET',
        valueFrom: { secretKeyRef: { name: 'weighbridge', key: 'client' } },
      },
      { name: 'OIDC_SIGN_IN_SCOPES', value: 'openid profile email' },
      { name: 'OIDC_SIGN_IN_NAME', value: 'Login' },
    ]);
  });

  it('that are large numbers are not rendered in exponent notation', async () => {
    const all = await manifests('--set', 'dataPlane.spool.maxBytes=1099511627776');
    const { env } = workload(all, 'data-plane').pod.containers[0] ?? {};
    expect(env).toContainEqual({ name: 'SPOOL_MAX_BYTES', value: '1099511627776' });
  });
});

describe('the release', () => {
  it('is migrated first: by a hook, by one Job per image, or outside of the chart', async () => {
    const hook = workload(await manifests(), 'migrate').manifest.metadata;
    expect(hook.annotations).toMatchObject({ 'helm.sh/hook': 'pre-install,pre-upgrade' });
    const jobs = await Promise.all(
      ['1.0.0', '1.1.0'].map(async (tag) =>
        ofKind(await manifests('--set', `migration.kind=job,image.tag=${tag}`), 'Job').map(
          ({ metadata }) => metadata,
        ),
      ),
    );
    const waves = jobs.flat().map(({ annotations }) => annotations);
    expect(waves).toEqual(Array(2).fill({ 'argocd.argoproj.io/sync-wave': '-1' }));
    expect(new Set(jobs.flat().map(({ name }) => name)).size).toBe(2);
    expect(ofKind(await manifests('--set', 'migration.kind=none'), 'Job')).toEqual([]);
  });

  it("has the network policy of the migration before it, also where a namespace's own policy denies all", async () => {
    const annotationsOf = async (kind: string, ...options: string[]) =>
      ofKind(await manifests(...options), kind).find(({ metadata }) => /-migrat/.test(metadata.name))
        ?.metadata.annotations;
    const [policy, hook] = [await annotationsOf('NetworkPolicy'), await annotationsOf('Job')];
    expect(policy?.['helm.sh/hook']).toBe(hook?.['helm.sh/hook']);
    expect(Number(policy?.['helm.sh/hook-weight'])).toBeLessThan(Number(hook?.['helm.sh/hook-weight']));
    const asJob = ['--set', 'migration.kind=job'];
    expect(await annotationsOf('NetworkPolicy', ...asJob)).toEqual({ 'argocd.argoproj.io/sync-wave': '-2' });
  });

  it('ends its pods by itself before a cluster autoscaler does, after 600 s', async () => {
    for (const { pod } of workloads(await manifests()))
      expect(pod.terminationGracePeriodSeconds ?? 30).toBeLessThan(600);
  });

  it('stores the spool on a volume claim, or optionally in the pod, with a warning', async () => {
    const persistent = workload(await manifests(), 'data-plane').manifest;
    expect(persistent.kind).toBe('StatefulSet');
    expect(persistent.spec.volumeClaimTemplates).toHaveLength(1);
    expect(persistent.spec.persistentVolumeClaimRetentionPolicy).toEqual({
      whenDeleted: 'Retain',
      whenScaled: 'Retain',
    });
    const ephemeral = workload(await manifests(...(VARIANTS.tryout ?? [])), 'data-plane');
    expect(ephemeral.manifest.kind).toBe('Deployment');
    expect(ephemeral.pod.volumes).toContainEqual({ name: 'data', emptyDir: { sizeLimit: '1Gi' } });
    const warning = 'dataPlane.spool.volume is emptyDir';
    expect(await notes(...(VARIANTS.tryout ?? []))).toContain(warning);
    expect(await notes()).not.toContain(warning);
  });

  it('gives proxies no secret of the database or the vendors', async () => {
    const all = await manifests(...(VARIANTS.production ?? []));
    const names = workload(all, 'data-plane').pod.containers.flatMap(({ env = [] }) =>
      env.filter(({ valueFrom }) => valueFrom?.secretKeyRef).map(({ name }) => name),
    );
    expect(names.sort()).toEqual(['CONTROL_PLANE_TOKEN', 'NATS_URL', 'STATE_KEY']);
  });

  it('stores the keys of the apps outside of the folders that vendor credentials may reference', async () => {
    const all = await manifests('--set', 'controlPlane.credentialsSecret=vendors');
    const mounts = workloads(all).flatMap(({ pod }) =>
      pod.containers.flatMap(({ volumeMounts = [] }) => volumeMounts),
    );
    const below = mounts.filter(({ mountPath }) =>
      /^\/(etc\/weighbridge|run\/secrets)(\/|$)/.test(mountPath),
    );
    expect(new Set(below.map(({ name }) => name))).toEqual(new Set(['credentials']));
    expect(mounts.filter(({ name }) => name === 'tls')).toHaveLength(2);
  });

  it('has one image', async () => {
    const digest = `sha256:${'0'.repeat(64)}`;
    const all = await manifests('--set', `image.repository=registry.example/w,image.digest=${digest}`);
    const images = workloads(all).flatMap(({ pod }) => pod.containers.map(({ image }) => image));
    expect([images.length, ...new Set(images)]).toEqual([4, `registry.example/w@${digest}`]);
  });
});

describe('the examples', () => {
  it('are valid YAML and create every secret and key that the production values name', async () => {
    const files = (await readdir(`${CHART}/examples`)).filter((file) => file.endsWith('.yaml'));
    const all = (
      await Promise.all(
        files.map(async (file) => parseYaml(await read(`deploy/helm/weighbridge/examples/${file}`))),
      )
    ).flat();
    const made = new Set(all.flatMap((one) => secretsOf(one as Example)));
    const rendered = workloads(await manifests(...(VARIANTS.production ?? [])));
    const used = rendered.flatMap(({ pod }) => [
      ...pod.containers.flatMap(({ env = [] }) =>
        env.flatMap(({ valueFrom: { secretKeyRef: ref } = {} }) => (ref ? [`${ref.name}/${ref.key}`] : [])),
      ),
      ...(pod.volumes ?? []).flatMap(({ secret }) => (secret ? [`${secret.secretName}/tls.crt`] : [])),
    ]);
    expect(used.length).toBeGreaterThan(10);
    expect(used.filter((one) => !made.has(one))).toEqual([]);
  });

  it.each([
    ['eks', 'eks.amazonaws.com/role-arn', 'AWS_REGION'],
    ['gke', 'iam.gke.io/gcp-service-account', undefined],
    ['aks', 'azure.workload.identity/client-id', undefined],
    ['azure-token', 'weighbridge.example/used-for', 'AZURE_FEDERATED_TOKEN_FILE'],
  ])('give an identity at a cloud to the data plane alone: %s', async (name, annotation, variable) => {
    const production = ['production.values.yaml', `identity-${name}.values.yaml`];
    const all = await manifests(...production.flatMap((file) => ['-f', example(file)]));
    expect(all.flatMap(schemaErrors)).toEqual([]);
    expect(violations(all)).toEqual([]);
    const accounts = all.filter(({ kind }) => kind === 'ServiceAccount').map(({ metadata }) => metadata);
    expect(
      accounts.map((account) => [
        account?.name,
        Object.keys((account as { annotations?: object }).annotations ?? {}),
      ]),
    ).toEqual([
      ['weighbridge', []],
      ['weighbridge-data-plane', [annotation]],
    ]);
    const used = workloads(all).map(({ pod }) => (pod as { serviceAccountName?: string }).serviceAccountName);
    expect(used.filter((account) => account === 'weighbridge-data-plane')).toHaveLength(1);
    const { pod } = workload(all, 'data-plane');
    const names = pod.containers[0]?.env?.map((one) => one.name) ?? [];
    if (variable) expect(names).toContain(variable);
    const text = JSON.stringify(pod);
    expect(text.includes('"audience":"api://AzureADTokenExchange"')).toBe(name === 'azure-token');
    if (name === 'azure-token') {
      expect(text).toContain('"mountPath":"/var/run/secrets/weighbridge/azure"');
      expect(text).toContain('"value":"/var/run/secrets/weighbridge/azure/token"');
    }
  });

  it.each(['AZURE_CLIENT_SECRET', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'PATH'])(
    'take no secret and no other variable as an identity: %s',
    async (name) => {
      const { ok } = await render('--set', `dataPlane.identityEnv.${name}=a`);
      expect(ok).toBe(false);
    },
  );

  it('issue certificates for the name by which proxies call the control plane', async () => {
    const certificates = parseYaml(
      await read('deploy/helm/weighbridge/examples/certificates.yaml'),
    ) as Example[];
    const names = certificates.flatMap(({ spec }) => spec?.dnsNames ?? []);
    const { env = [] } = workload(await manifests(), 'data-plane').pod.containers[0] ?? {};
    const address = env.find(({ name }) => name === 'CONTROL_PLANE_ADDRESS')?.value;
    expect(names.map((name) => `${name}:8082`)).toEqual([address]);
  });
});

interface Example {
  readonly kind?: string;
  readonly metadata?: { readonly name: string };
  readonly spec?: {
    readonly secretName?: string;
    readonly dnsNames?: readonly string[];
    readonly data?: readonly { readonly secretKey: string }[];
    readonly target?: { readonly name: string; readonly template?: { readonly data?: object } };
  };
}

/** The secrets and keys that the cluster's operators create from an example. */
function secretsOf({ kind, metadata, spec }: Example): string[] {
  if (kind === 'Cluster') return [`${metadata?.name}-app/uri`];
  if (kind === 'Certificate') return [`${spec?.secretName}/tls.crt`];
  if (kind !== 'ExternalSecret') return [];
  const { name, template } = spec?.target ?? {};
  const keys = template
    ? Object.keys(template.data ?? {})
    : (spec?.data ?? []).map(({ secretKey }) => secretKey);
  return keys.map((key) => `${name}/${key}`);
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
}

/** Names that only the schema or only the defaults have. Settings are exempt: their defaults are in the apps. */
function differingNames(schema: Schema, value: unknown, path: string): string[] {
  if (schema.additionalProperties !== false || !schema.properties || path.endsWith('.settings')) return [];
  const values = (value ?? {}) as Record<string, unknown>;
  const known = Object.keys(schema.properties).filter((name) => !(path === '' && name === 'global'));
  return [
    ...Object.keys(values)
      .filter((name) => !known.includes(name))
      .map((name) => `${path}.${name}: no schema`),
    ...known.flatMap((name) =>
      name in values
        ? differingNames(schema.properties?.[name] ?? {}, values[name], `${path}.${name}`)
        : [`${path}.${name}: no default`],
    ),
  ];
}
