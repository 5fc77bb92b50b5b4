import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { findProvider } from '@pydantic/genai-prices';
import { catalogOf, type Release } from './catalogOf.ts';
import { catalogText } from './catalogText.ts';
import { readFacts } from './facts.ts';

/** Where the files ship. */
export const CATALOG = new URL('../../../apps/control-plane/catalog/', import.meta.url);

/** The files of the catalog by name. Throws if a fact is missing or contradicts the package. */
export async function generate(): Promise<Map<string, string>> {
  const release = await readRelease();
  const files = new Map<string, string>();
  for (const facts of await readFacts()) {
    const models =
      facts.package_provider === null ? [] : findProvider({ providerId: facts.package_provider })?.models;
    if (!models) throw new Error(`${facts.provider}: the package has no provider ${facts.package_provider}.`);
    files.set(`${facts.provider}.json`, catalogText(catalogOf(facts, models, release)));
  }
  return files;
}

/** The package does not state its date, so release.json does. */
async function readRelease(): Promise<Release> {
  const main = createRequire(import.meta.url).resolve('@pydantic/genai-prices');
  const { version } = JSON.parse(await readFile(new URL('../package.json', `file://${main}`), 'utf8'));
  const release: Release = JSON.parse(await readFile(new URL('../release.json', import.meta.url), 'utf8'));
  if (release.version === version) return release;
  throw new Error(
    `release.json is of @pydantic/genai-prices ${release.version}, installed is ${version}. Write its version and its date (npm view @pydantic/genai-prices time).`,
  );
}
