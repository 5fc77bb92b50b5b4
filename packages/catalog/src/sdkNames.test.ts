import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, it } from 'vitest';
import type { Catalog } from './catalogOf.ts';
import { generate } from './generate.ts';

const files = await generate();
const { resolve } = createRequire(import.meta.url);

/** The names in a union type of a package's declarations. */
function namesOf(file: string, type: string): string[] {
  const text = readFileSync(file, 'utf8');
  const union = new RegExp(`export type ${type} =([^;]*);`).exec(text)?.[1] ?? '';
  return [...union.matchAll(/'([^']+)'/g)].map(([, name = '']) => name);
}

it.each([
  [
    'openai',
    resolve('openai-7/resources/shared').replace(/\.m?js$/, '.d.ts'),
    ['ChatModel', 'ResponsesModel'],
    100,
  ],
  [
    'anthropic',
    resolve('@anthropic-ai/sdk/resources/messages/messages').replace(/\.m?js$/, '.d.ts'),
    ['Model'],
    15,
  ],
])('knows every model that the types of the SDK of %s name', (provider, file, types, atLeast) => {
  const names = [...new Set(types.flatMap((type) => namesOf(file, type)))];
  expect(names.length).toBeGreaterThan(atLeast);
  const { models } = JSON.parse(files.get(`${provider}.json`) ?? '') as Catalog;
  const known = new Set(models.map(({ name }) => name));
  expect(names.filter((name) => !known.has(name))).toEqual([]);
});
