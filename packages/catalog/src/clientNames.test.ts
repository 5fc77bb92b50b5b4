import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { Catalog } from './catalogOf.ts';
import { generate } from './generate.ts';

interface ClientNames {
  readonly clients: readonly { readonly client: string; readonly names: readonly string[] }[];
  /** Names of clients that the catalog leaves out, and why. */
  readonly not_listed: Readonly<Record<string, string>>;
}

const { clients, not_listed }: ClientNames = JSON.parse(
  readFileSync(new URL('../clientNames.json', import.meta.url), 'utf8'),
);
const catalogs = [...(await generate()).values()].map((text) => JSON.parse(text) as Catalog);
const models = catalogs.flatMap(({ models }) => models);
const byName = new Map(
  models.flatMap((model) => [model.name, ...model.other_names].map((name) => [name, model] as const)),
);
const AGENTS = ['claude-code', 'codex', 'agents-core', 'opencode', 'gemini-cli'];

it.each(clients)('has every model that $client names', ({ names }) => {
  expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => !byName.has(name) && !not_listed[name])).toEqual([]);
});

it.each(clients.filter(({ client }) => AGENTS.some((agent) => client.includes(agent))))(
  'has a price for every model that $client chooses by itself',
  ({ names }) => {
    expect(names.filter((name) => !byName.get(name)?.prices.length)).toEqual([]);
  },
);

it('says why a model that a client names has no price', () => {
  const unpriced = clients
    .flatMap(({ names }) => names)
    .flatMap((name) => byName.get(name) ?? [])
    .filter(({ prices }) => prices.length === 0);
  expect(unpriced.filter(({ unpriced }) => !unpriced)).toEqual([]);
});

it('leaves out only names that no catalog has', () => {
  expect(Object.keys(not_listed).filter((name) => byName.has(name))).toEqual([]);
});
