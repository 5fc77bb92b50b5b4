import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { addCertificateMetric } from './certificateMetric.ts';
import { createMetrics } from './metrics.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const METRIC = 'weighbridge_certificate_expires_timestamp_seconds';

async function shown(file: string | undefined): Promise<string | undefined> {
  const metrics = createMetrics();
  addCertificateMetric(metrics, file);
  return (await metrics.text()).match(new RegExp(`^${METRIC} (.*)$`, 'm'))?.[1];
}

const ending = async (notAfterDate: Date) =>
  (await generate([{ name: 'commonName', value: 'weighbridge' }], { notAfterDate, keyType: 'ec' })).cert;

it('is the earliest expiry of the certificates in a file', async () => {
  const [first, later] = [new Date('2030-01-31T12:00:00Z'), new Date('2031-01-31T12:00:00Z')];
  const file = join(folder, 'tls.crt');
  await writeFile(file, `${await ending(later)}\n${await ending(first)}`);
  expect(Number(await shown(file))).toBe(first.getTime() / 1_000);
});

it('follows a renewed file, and is NaN without a certificate', async () => {
  expect(await shown(undefined)).toMatch(/^nan$/i);
  expect(await shown(join(folder, 'nowhere'))).toMatch(/^nan$/i);
  const file = join(folder, 'renewed.crt');
  await writeFile(file, 'no certificate');
  expect(await shown(file)).toMatch(/^nan$/i);

  let nowMs = 0;
  const metrics = createMetrics();
  addCertificateMetric(metrics, file, () => nowMs);
  expect(await metrics.text()).toMatch(new RegExp(`^${METRIC} nan$`, 'im'));
  const end = new Date('2032-01-31T12:00:00Z');
  await writeFile(file, await ending(end));
  expect(await metrics.text()).toMatch(new RegExp(`^${METRIC} nan$`, 'im'));
  nowMs = 60_000;
  expect(await metrics.text()).toContain(`${METRIC} ${end.getTime() / 1_000}`);
});
