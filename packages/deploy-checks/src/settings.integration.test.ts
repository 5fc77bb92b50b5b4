import {
  ArchiveSettings,
  MetricsSettings,
  NatsStreamSettings,
  TlsSettings,
  TracingSettings,
} from '@weighbridge/runtime';
import { describe, expect, it } from 'vitest';
import { example, manifests } from './helm.ts';
import { workload } from './manifests.ts';
import { read } from './repository.ts';

/** Further files in which an app declares settings, besides its config.ts. */
const FURTHER_FILES: Readonly<Record<string, string>> = {
  'control-plane': 'apps/control-plane/src/features/access/oidc/settings.ts',
  'data-plane': 'apps/data-plane/src/settings.ts',
};

/** The settings that an app declares, from the source of its schemas, since packages may not import apps. */
async function declaredSettings(app: string): Promise<string[]> {
  const further = FURTHER_FILES[app];
  const text = (await read(`apps/${app}/src/config.ts`)) + (further ? await read(further) : '');
  return [
    ...[...text.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name),
    ...(text.includes('...ArchiveSettings') ? Object.keys(ArchiveSettings) : []),
    ...(text.includes('...TlsSettings') ? Object.keys(TlsSettings) : []),
    ...(text.includes('...MetricsSettings') ? Object.keys(MetricsSettings) : []),
    ...(text.includes('...NatsStreamSettings') ? Object.keys(NatsStreamSettings) : []),
    ...(text.includes('...TracingSettings') ? Object.keys(TracingSettings) : []),
  ];
}

/** The variables that the chart sets itself, with all optional values. */
async function variablesSetByChart(app: string): Promise<Set<string>> {
  const optional = [
    '--set',
    'secrets.keys.previousKeyEncryptionKeys=previous,secrets.keys.previousPeppers=peppers,secrets.keys.responseCacheKey=responses,secrets.keys.tracesHeaders=traces,traces.endpoint=http://collector:4318,controlPlane.oidc.issuer=https://login.example.com,controlPlane.oidc.audiences[0]=w,controlPlane.oidc.scopeMap.admins[0]=operator,controlPlane.oidc.principalPrefix=sso:,secrets.keys.oidcClientSecret=client,controlPlane.oidc.clientId=console,controlPlane.oidc.signInName=Login,controlPlane.settings.PUBLIC_URL=https://llm.example.com',
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

const PROVIDERS = ['OPENAI', 'ANTHROPIC', 'GEMINI', 'MISTRAL', 'GROQ', 'DEEPSEEK', 'XAI', 'TOGETHER'];
const VENDORS = PROVIDERS.flatMap((name) => [`${name}_BASE_URL`, `${name}_API_KEY`]);
const APPS = {
  'control-plane': {
    section: 'controlPlane',
    // The chart always sets the first operator key, so the app never writes one.
    without: ['OPERATOR_KEY_FILE'],
    besides: VENDORS,
  },
  'data-plane': {
    section: 'dataPlane',
    // A pod has one process: a probe or scrape would reach any one of several.
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

  it(`sets each setting of the app or takes it from ${section}.settings: add new ones to values.schema.json`, async () => {
    const reachable = new Set<string>([
      ...(await variablesSetByChart(app)),
      ...(await offered()),
      ...without,
    ]);
    expect((await declaredSettings(app)).filter((name) => !reachable.has(name))).toEqual([]);
  });

  it('has no setting that the app does not declare', async () => {
    // The last two are Node's own.
    const known = new Set<string>([
      ...(await declaredSettings(app)),
      ...besides,
      'NODE_OPTIONS',
      'NODE_EXTRA_CA_CERTS',
    ]);
    expect(
      [...(await variablesSetByChart(app)), ...(await offered())].filter((name) => !known.has(name)),
    ).toEqual([]);
  });

  it('takes no setting from values that it sets itself', async () => {
    const own = await variablesSetByChart(app);
    const twice = (await offered()).filter((name) => own.has(name));
    // The production example sets one, and sign-in by OIDC needs the other.
    expect(twice.filter((name) => name !== 'MAX_STALENESS_MS' && name !== 'PUBLIC_URL')).toEqual([]);
  });
});
