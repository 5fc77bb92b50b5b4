import { NatsStreamSettings, TlsSettings, TracingSettings } from '@weighbridge/runtime';
import { describe, expect, it } from 'vitest';
import { example, manifests } from './helm.ts';
import { workload } from './manifests.ts';
import { read } from './repository.ts';

/** Where else than in its config.ts an app declares settings. */
const FURTHER: Readonly<Record<string, string>> = {
  'control-plane': 'apps/control-plane/src/features/access/oidc/settings.ts',
  'data-plane': 'apps/data-plane/src/settings.ts',
};

/** The settings that an app declares, by the text of its schemas: packages may not import apps. */
async function declared(app: string): Promise<string[]> {
  const further = FURTHER[app];
  const text = (await read(`apps/${app}/src/config.ts`)) + (further ? await read(further) : '');
  return [
    ...[...text.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name),
    ...(text.includes('...TlsSettings') ? Object.keys(TlsSettings) : []),
    ...(text.includes('...NatsStreamSettings') ? Object.keys(NatsStreamSettings) : []),
    ...(text.includes('...TracingSettings') ? Object.keys(TracingSettings) : []),
  ];
}

/** What the chart sets by itself, over all that its values can ask for. */
async function set(app: string): Promise<Set<string>> {
  const optional = [
    '--set',
    'secrets.keys.previousKeyEncryptionKeys=previous,secrets.keys.previousPeppers=peppers,secrets.keys.responseCacheKey=answers,secrets.keys.tracesHeaders=traces,traces.endpoint=http://collector:4318,controlPlane.oidc.issuer=https://login.example.com,controlPlane.oidc.audiences[0]=w,controlPlane.oidc.scopeMap.admins[0]=operator,controlPlane.oidc.principalPrefix=sso:',
  ];
  const variants = await Promise.all([
    manifests(...optional),
    manifests('--values', example('production.values.yaml')),
    manifests('--values', example('tryout.values.yaml')),
  ]);
  return new Set(
    variants.flatMap((all) => (workload(all, app).pod.containers[0]?.env ?? []).map(({ name }) => name)),
  );
}

const VENDORS = ['OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL', 'OPENAI_API_KEY', 'ANTHROPIC_API_KEY'];
const APPS = {
  'control-plane': {
    section: 'controlPlane',
    // The chart always gives the first operator key, so none is ever written.
    without: ['OPERATOR_KEY_FILE'],
    besides: VENDORS,
  },
  'data-plane': {
    section: 'dataPlane',
    // A pod is one process: a probe or a scrape would ask any one of several.
    without: ['PROCESSES'],
    besides: [],
  },
  metering: { section: 'metering', without: [], besides: [] },
} as const;

describe.each(Object.entries(APPS))('the chart for the %s', (app, { section, without, besides }) => {
  const offered = async () => {
    const schema = JSON.parse(await read('deploy/helm/weighbridge/values.schema.json'));
    return Object.keys(schema.properties[section].properties.settings.properties);
  };

  it(`sets each setting of the app or takes it from ${section}.settings: name a new one in values.schema.json`, async () => {
    const reachable = new Set<string>([...(await set(app)), ...(await offered()), ...without]);
    expect((await declared(app)).filter((name) => !reachable.has(name))).toEqual([]);
  });

  it('knows no setting that the app does not have', async () => {
    // The last two are Node's own.
    const known = new Set<string>([
      ...(await declared(app)),
      ...besides,
      'NODE_OPTIONS',
      'NODE_EXTRA_CA_CERTS',
    ]);
    expect([...(await set(app)), ...(await offered())].filter((name) => !known.has(name))).toEqual([]);
  });

  it('takes none from values that it sets by itself', async () => {
    const own = await set(app);
    const twice = (await offered()).filter((name) => own.has(name));
    // The production example shows one.
    expect(twice.filter((name) => name !== 'MAX_STALENESS_MS')).toEqual([]);
  });
});
