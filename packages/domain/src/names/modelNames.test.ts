import {
  array,
  assert,
  boolean,
  constantFrom,
  integer,
  option,
  property,
  record,
  uniqueArray,
} from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Alias } from './aliasIndex.ts';
import { ModelNames, type NameableModel } from './modelNames.ts';

type Model = NameableModel & { readonly priority: number };

function model(id: string, facts: Partial<Model> = {}): Model {
  return { id, provider: id.slice(0, id.indexOf('/')), otherNames: [], own: true, priority: 0, ...facts };
}

function namesOf(models: readonly Model[], aliases: readonly Alias[] = [], providers: string[] = []) {
  return new ModelNames({ models, aliases, providers, priorityOf: (one) => (one as Model).priority });
}

const alias = (name: string, target: string, policyId?: string): Alias => {
  return { id: `als_${name}`, name, target, policyId };
};

describe('a bare name', () => {
  const names = namesOf([
    model('openai/gpt-4o', { priority: 9 }),
    model('azure/gpt-4o', { own: false }),
    model('groq/openai/gpt-oss-120b', { own: false, priority: 2 }),
    model('together/openai/gpt-oss-120b', { own: false, priority: 1 }),
    model('xai/grok-3', { otherNames: ['grok-3-latest', 'x-ai/grok-3'] }),
    model('anthropic/claude-sonnet-4-5-20250929'),
    model('gemini/gemini-2.5-pro'),
  ]);
  const target = (name: string) => names.resolve(name, [])?.target;

  it('goes to who makes the model, else to the preferred connector', () => {
    expect(target('gpt-4o')).toBe('openai/gpt-4o');
    expect(target('openai/gpt-oss-120b')).toBe('together/openai/gpt-oss-120b');
    expect(target('gpt-oss-120b')).toBeUndefined();
  });

  it('may be another name, which its provider gets as it was written', () => {
    const written = { target: 'xai/grok-3', by: 'other_name', sentName: 'grok-3-latest' };
    expect(names.resolve('grok-3-latest', [])).toMatchObject(written);
    expect(names.resolve('xai/grok-3-latest', [])).toMatchObject(written);
  });

  it("is the maker's name of a cloud's model, with and without its date, unless its maker is reached", () => {
    const clouds = [
      model('bedrock/eu.anthropic.claude-opus-4-1-20250805-v1:0', { priority: 1 }),
      model('bedrock/amazon.nova-pro-v1:0'),
      model('vertex/claude-opus-4-1@20250805'),
      model('vertex/gemini-2.5-pro'),
      model('vertex/claude-sonnet-4-5@20250929'),
    ];
    const own = [model('anthropic/claude-sonnet-4-5-20250929'), model('acme/claude-haiku@20250101')];
    const named = namesOf([...clouds, ...own]);
    for (const [name, id] of [
      ['claude-opus-4-1-20250805', 'vertex/claude-opus-4-1@20250805'],
      ['claude-opus-4-1', 'vertex/claude-opus-4-1@20250805'],
      ['nova-pro', 'bedrock/amazon.nova-pro-v1:0'],
      ['gemini-2.5-pro', 'vertex/gemini-2.5-pro'],
      ['claude-sonnet-4-5-20250929', 'anthropic/claude-sonnet-4-5-20250929'],
      ['claude-haiku', undefined],
    ] as const) {
      expect([name, named.resolve(name, [])?.target]).toEqual([name, id]);
      // The cloud gets its own name.
      expect(named.resolve(name, [])?.sentName).toBeUndefined();
    }
  });

  it('goes out as its provider spells it, if only the spelling differs', () => {
    for (const [name, id] of [
      ['x-ai/grok-3', 'xai/grok-3'],
      ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic/claude-sonnet-4-5-20250929'],
      ['claude-sonnet-4-5@20250929', 'anthropic/claude-sonnet-4-5-20250929'],
      ['models/gemini-2.5-pro', 'gemini/gemini-2.5-pro'],
    ] as const) {
      expect(names.resolve(name, [])).toMatchObject({ target: id, sentName: undefined });
    }
  });

  it('is exact', () => {
    for (const name of ['GPT-4o', 'gpt-4', 'gpt-4o-2099-01-01', 'grok-3-', '', 'nobody.gpt-4o'])
      expect([name, target(name)]).toEqual([name, undefined]);
  });
});

describe('an alias', () => {
  const names = namesOf(
    [model('openai/gpt-4o'), model('openai/gpt-4o-mini')],
    [
      alias('gpt-4o', 'openai/gpt-4o-mini'),
      alias('claude-*', 'router/cheap'),
      alias('claude-opus-*', 'router/best'),
      alias('claude-opus-4', 'openai/gpt-4o'),
      alias('claude-*', 'router/team', 'pol_team'),
      alias('claude-*', 'router/company', 'pol_company'),
      alias('*', 'openai/gpt-4o', 'pol_any'),
    ],
    ['anthropic'],
  );
  const target = (name: string, ...policies: string[]) => names.resolve(name, policies)?.target;

  it('goes before the catalog, the exact one before the longest beginning', () => {
    expect(target('gpt-4o')).toBe('openai/gpt-4o-mini');
    expect(target('claude-')).toBe('router/cheap');
    expect(target('claude-opus-5')).toBe('router/best');
    expect(target('claude-opus-4')).toBe('openai/gpt-4o');
  });

  it('of the nearest policy goes first, then those for all', () => {
    expect(target('claude-opus-4', 'pol_team', 'pol_company')).toBe('router/team');
    expect(target('claude-opus-4', 'pol_other', 'pol_company')).toBe('router/company');
    expect(target('claude-opus-4', 'pol_other')).toBe('openai/gpt-4o');
  });

  it('never stands for what begins with a provider or router/', () => {
    expect(target('openai/gpt-4o', 'pol_any')).toBe('openai/gpt-4o');
    expect(target('openai/none', 'pol_any')).toBeUndefined();
    expect(target('anthropic/claude-opus-4', 'pol_any')).toBeUndefined();
    expect(target('router/none', 'pol_any')).toBe('router/none');
    expect(target('hf/some', 'pol_any')).toBe('openai/gpt-4o');
  });
});

/** As the rules read, without an index. */
function resolveNaively(
  name: string,
  policies: readonly string[],
  models: readonly Model[],
  aliases: readonly Alias[],
): string | undefined {
  if (models.some(({ id }) => id === name)) return name;
  if (!models.some(({ provider }) => name.startsWith(`${provider}/`))) {
    for (const policyId of [...policies, undefined]) {
      const [first] = aliases
        .filter((one) => one.policyId === policyId)
        .filter(
          (one) => one.name === name || (one.name.endsWith('*') && name.startsWith(one.name.slice(0, -1))),
        )
        .sort((a, b) => Number(b.name === name) - Number(a.name === name) || b.name.length - a.name.length);
      if (first) return first.target;
    }
  }
  const having = models.filter(
    ({ id, provider, otherNames }) =>
      id === `${provider}/${name}` ||
      otherNames.some((other) => [other, `${provider}/${other}`].includes(name)),
  );
  const [first] = having.sort((a, b) => {
    const isOther = (one: Model) => Number(one.id !== `${one.provider}/${name}`);
    return (
      Number(b.own) - Number(a.own) ||
      isOther(a) - isOther(b) ||
      a.priority - b.priority ||
      (a.id < b.id ? -1 : 1)
    );
  });
  return first?.id;
}

it('resolves as the rules read, whatever the names', () => {
  const text = constantFrom('a', 'b', 'aa', 'ab', 'aab', 'abb', 'p/a', 'q/a', 'b/a');
  const someModel = record({
    provider: constantFrom('p', 'q', 'b'),
    name: text,
    otherNames: array(text, { maxLength: 3 }),
    own: boolean(),
    priority: integer({ min: 0, max: 2 }),
  });
  const models = uniqueArray(someModel, {
    maxLength: 8,
    selector: ({ provider, name }) => `${provider}/${name}`,
  });
  const someAlias = record({
    name: constantFrom('a', 'b', 'aa', 'a*', 'aa*', 'ab*', '*', 'x'),
    target: constantFrom('router/one', 'router/two', 'p/a'),
    policyId: option(constantFrom('pol_1', 'pol_2'), { nil: undefined }),
  });
  const aliases = uniqueArray(someAlias, {
    maxLength: 8,
    selector: ({ name, policyId }) => `${policyId} ${name}`,
  });
  const policies = constantFrom<string[]>([], ['pol_1'], ['pol_2', 'pol_1'], ['pol_3']);
  assert(
    property(models, aliases, policies, text, (facts, given, policyIds, name) => {
      const all = facts.map(({ provider, name: own, ...others }) => model(`${provider}/${own}`, others));
      const named = given.map((one, at) => ({ id: `als_${at}`, ...one }));
      const found = namesOf(all, named).resolve(name, policyIds);
      expect(found?.target).toBe(resolveNaively(name, policyIds, all, named));
    }),
    { numRuns: 2_000 },
  );
});
