import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { readApplyFile } from '../apply/applyFile.ts';
import type { Json } from '../apply/desiredState.ts';
import { loadServiceRules } from '../apply/serviceRules.ts';
import { mapConfig } from './config.ts';
import { createReport, reportLines } from './report.ts';

const { published, rule } = await loadServiceRules();
const deployment = (model_name: string, model = `openai/${model_name}`) => ({
  model_name,
  litellm_params: { model },
});

function converted(config: Json) {
  const report = createReport();
  const check = (alias: Json) => rule('aliases', alias, true);
  const { groups, ...sections } = mapConfig(config, undefined, check, report);
  const filled = Object.fromEntries(Object.entries(sections).filter(([, some]) => some.length > 0));
  // What is converted can be applied.
  expect(() => readApplyFile('gateway.yaml', stringify(filled), published, rule)).not.toThrow();
  return { ...sections, groups, said: reportLines(report).join('\n') };
}
const withAliases = (model_group_alias: unknown, more: Json = {}) =>
  converted({
    model_list: [deployment('gpt-4o'), deployment('o3')],
    router_settings: { model_group_alias },
    ...more,
  });

describe("LiteLLM's model_group_alias", () => {
  it('becomes aliases, in both forms', () => {
    const { aliases, said, groups } = withAliases({
      'gpt-4': 'gpt-4o',
      best: { model: 'o3', hidden: true },
      shown: { model: 'o3', hidden: false },
    });
    expect(aliases).toEqual([
      { name: 'gpt-4', target: 'router/gpt-4o' },
      { name: 'best', target: 'router/o3' },
      { name: 'shown', target: 'router/o3' },
    ]);
    expect(said).toContain('router_settings.model_group_alias.best → alias best → router/o3: hidden');
    // Keys that were limited to an alias are limited to its models.
    expect(groups.get('best')).toEqual(['openai/o3']);
  });

  it('is read from every section that may have it', () => {
    const { aliases } = withAliases(
      { a: 'o3' },
      {
        litellm_settings: { model_group_alias: { b: 'o3', a: 'gpt-4o' } },
        general_settings: { model_group_alias: { c: 'o3' } },
      },
    );
    expect(aliases).toEqual(['a', 'b', 'c'].map((name) => ({ name, target: 'router/o3' })));
  });

  it.each([
    [{ gone: 'nothing' }, 'model_group_alias.gone: there is no such group as nothing'],
    [{ first: 'second', second: 'o3' }, 'model_group_alias.first: there is no such group as second'],
    [{ loop: 'loop' }, 'model_group_alias.loop: there is no such group as loop'],
    [{ none: null }, 'model_group_alias.none: it names no model'],
    [{ none: { hidden: true } }, 'model_group_alias.none: it names no model'],
    [{ 'two words': 'o3' }, 'model_group_alias.two words: An alias has 1 to 200'],
    [{ 'router/x': 'o3' }, "An alias can't begin with router/"],
    [{ 'openai/gpt-4': 'o3' }, "an alias can't begin with openai/"],
    [{ odd: { model: 'o3', weight: 1 } }, 'model_group_alias.odd.weight: unknown setting'],
  ])('%j is reported', (model_group_alias, line) => {
    const { said, aliases } = withAliases(model_group_alias);
    expect(said).toContain(line);
    expect(aliases.filter(({ target }) => target !== 'router/o3')).toEqual([]);
  });

  it.each(['text', 7, null, ['o3']])('%j is none', (model_group_alias) => {
    expect(withAliases(model_group_alias).aliases).toEqual([]);
  });
});

describe('names of the model list with *', () => {
  it('are the models of a connector, and aliases may name one of them', () => {
    const { connectors, aliases, profiles, said } = converted({
      model_list: [deployment('openai/*', 'openai/*')],
      router_settings: { model_group_alias: { fast: 'openai/gpt-4o-mini', star: 'openai/*' } },
    });
    expect([connectors[0]?.models, profiles, aliases]).toEqual([
      ['openai/*'],
      [],
      [{ name: 'fast', target: 'openai/gpt-4o-mini' }],
    ]);
    expect(said).toContain("model_name openai/* → the connector's models openai/*");
    expect(said).toContain('model_group_alias.star: there is no such group');
  });

  it('keep the names of models, or are reported', () => {
    const { connectors, said } = converted({
      model_list: [
        deployment('*', 'openai/*'),
        deployment('claude-*', 'anthropic/claude-*'),
        deployment('mine-*', 'groq/*'),
        deployment('everything', '*'),
      ],
    });
    expect(connectors.map(({ models }) => models)).toEqual([
      ['openai/*'],
      ['anthropic/claude-*'],
      ['groq/*'],
    ]);
    expect(said).toContain(
      "model_name * → the connector's models openai/*: callers use each model's own name",
    );
    expect(said).toContain("model_name claude-* → the connector's models anthropic/claude-*: callers");
    expect(said).toContain('model_name mine-*: names that it makes have no counterpart');
    expect(said).toContain('its provider is not named');
  });

  it('become an alias if they stand for one model', () => {
    const { aliases } = converted({ model_list: [deployment('gpt-*', 'openai/gpt-4o')] });
    expect(aliases).toEqual([{ name: 'gpt-*', target: 'router/gpt' }]);
  });
});
