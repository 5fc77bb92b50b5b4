import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REPOSITORY, read } from './repository.ts';

const FILES = 'deploy/helm/weighbridge';

/** The metrics that the code makes, by the names in its text. */
async function made(): Promise<Set<string>> {
  const sources = await Promise.all(
    ['apps', 'packages'].map(async (folder) => {
      const entries = await readdir(join(REPOSITORY, folder));
      return await Promise.all(entries.map((entry) => sourcesOf(`${folder}/${entry}/src`)));
    }),
  );
  const texts = await Promise.all(sources.flat(2).map(read));
  return new Set(texts.flatMap((text) => text.match(/(?<=')weighbridge_[a-z_]+(?=')/g) ?? []));
}

async function sourcesOf(folder: string): Promise<string[]> {
  const files = await readdir(join(REPOSITORY, folder), { recursive: true }).catch(() => []);
  return files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => `${folder}/${file}`);
}

const named = (text: string): string[] =>
  (text.match(/\bweighbridge_[a-z_]+/g) ?? []).map((name) => name.replace(/_(bucket|sum|count)$/, ''));

describe('the metrics', () => {
  it('that alerts, dashboards and autoscaling name are there', async () => {
    const dashboards = (await readdir(join(REPOSITORY, FILES, 'dashboards'))).map(
      (file) => `dashboards/${file}`,
    );
    const known = await made();
    expect(known.size).toBeGreaterThan(20);
    for (const file of ['alerts/weighbridge.yaml', 'templates/autoscaling.yaml', ...dashboards]) {
      const names = named(await read(`${FILES}/${file}`));
      expect(names.length, file).toBeGreaterThan(0);
      expect(
        names.filter((name) => !known.has(name)),
        file,
      ).toEqual([]);
    }
  });
});
