import { readFile } from 'node:fs/promises';
import {
  ArchiveSettings,
  HttpLimitSettings,
  MetricsSettings,
  NatsStreamSettings,
  TlsSettings,
  TracingSettings,
} from '@weighbridge/runtime';
import { expect, it } from 'vitest';

const read = (path: string) => readFile(new URL(`../../../${path}`, import.meta.url), 'utf8');

/** The settings that an app declares in its schemas. */
async function declared(file: string): Promise<string[]> {
  const text = await read(file);
  const names = [...text.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name);
  if (text.includes('...ArchiveSettings')) names.push(...Object.keys(ArchiveSettings));
  if (text.includes('...TlsSettings')) names.push(...Object.keys(TlsSettings));
  if (text.includes('...HttpLimitSettings')) names.push(...Object.keys(HttpLimitSettings));
  if (text.includes('...MetricsSettings')) names.push(...Object.keys(MetricsSettings));
  if (text.includes('...NatsStreamSettings')) names.push(...Object.keys(NatsStreamSettings));
  if (text.includes('...TracingSettings')) names.push(...Object.keys(TracingSettings));
  return names.sort();
}

/** The settings in the first column of the first table behind `heading`. */
async function documented(heading: string): Promise<string[]> {
  const [, section = ''] = (await read('docs/configuration.md')).split(`\n${heading}`);
  const [table = ''] = /\| setting[\s\S]*?(?=\n\n|$)/.exec(section) ?? [];
  const firstColumn = table.split('\n').map((row) => row.split('|')[1] ?? '');
  return firstColumn.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)).sort();
}

it.each([
  ['apps/cli/src/up/config.ts', '## Embedded mode'],
  ['apps/control-plane/src/config.ts', '### Control plane'],
  ['apps/control-plane/src/features/access/oidc/settings.ts', '### Operators by OIDC'],
  ['apps/data-plane/src/settings.ts', '### Data plane'],
  ['apps/metering/src/config.ts', '### Metering'],
])('docs/configuration.md lists exactly the settings of %s', async (file, heading) => {
  const settings = await declared(file);
  expect(settings.length).toBeGreaterThan(5);
  expect(await documented(heading)).toEqual(settings);
});
