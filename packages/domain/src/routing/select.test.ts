import { describe, expect, it } from 'vitest';
import type { RoutingProfile, Strategy } from './profile.ts';
import { furthestStage, type Offer, selectModels } from './select.ts';

interface Account {
  readonly id: string;
  readonly priority: number;
  readonly routes: readonly string[];
}

const rates = (nano: bigint) => ({
  input: nano,
  output: nano,
  cacheRead: nano,
  cacheWrite: nano,
  cacheWrite1h: nano,
});
const account = (id: string, fields: Partial<Account> = {}): Account => ({
  id,
  priority: 0,
  routes: ['chat', 'embeddings'],
  ...fields,
});
const offer = (
  model: string,
  connectors: readonly (readonly [Account, bigint])[],
  fields: Partial<Exclude<Offer<Account>, { readonly unusable: string }>> = {},
): Offer<Account> => ({
  model,
  weight: 1,
  contextWindow: 1_000,
  score: undefined,
  capabilities: [],
  stratum: undefined,
  isAllowed: true,
  connectors: connectors.map(([connector, nano]) => ({ connector, price: rates(nano) })),
  ...fields,
});
const select = (
  offers: readonly Offer<Account>[],
  {
    strategy = 'ordered',
    constraints = {},
    route = 'chat',
  }: { strategy?: Strategy; constraints?: RoutingProfile['constraints']; route?: string } = {},
) =>
  selectModels({ strategy, constraints }, offers, {
    servesRoute: ({ routes }) => routes.includes(route),
    inOrder: (accounts) => accounts.toSorted((a, b) => a.priority - b.priority),
    random: () => 0.5,
  });
const chosen = (selection: ReturnType<typeof select>) =>
  selection.ranked.map(({ model, connectors }) => `${model}: ${connectors.map(({ id }) => id).join(' ')}`);

describe('the models of a profile', () => {
  it('go with their connectors in their order', () => {
    const connectors = [
      [account('fallback', { priority: 9 }), 1n],
      [account('first'), 1n],
    ] as const;
    expect(chosen(select([offer('a', connectors)]))).toEqual(['a: first fallback']);
  });

  it('under `cheapest` go to the cheapest account first, whatever its priority', () => {
    const a = offer('a', [
      [account('preferred', { priority: 0 }), 50n],
      [account('negotiated', { priority: 1 }), 10n],
    ]);
    const b = offer('b', [[account('other'), 20n]]);
    expect(chosen(select([b, a], { strategy: 'cheapest' }))).toEqual(['a: negotiated preferred', 'b: other']);
    expect(chosen(select([b, a]))).toEqual(['b: other', 'a: preferred negotiated']);
  });

  it('are excluded with the reason if they can’t be used, are not allowed, lack the route or break a constraint', () => {
    const { ranked, excluded } = select(
      [
        { model: 'gone', unusable: 'it has no price' },
        offer('refused', [[account('x'), 1n]], { isAllowed: false }),
        offer('routeless', [[account('y', { routes: ['embeddings'] }), 1n]]),
        offer('dear', [[account('z'), 11n]]),
        offer('good', [[account('w'), 10n]]),
      ],
      { constraints: { maxInputNanoUsd: 10n } },
    );
    expect(ranked.map(({ model }) => model)).toEqual(['good']);
    expect(excluded.map(({ model, stage, why }) => [model, stage, why.slice(0, 30)])).toEqual([
      ['gone', 'unusable', 'it has no price'],
      ['refused', 'policy', 'the policies of the key do not'],
      ['routeless', 'route', 'none of its connectors serves '],
      ['dear', 'constraints', 'a million input tokens cost 0.'],
    ]);
    expect(furthestStage(excluded)).toBe('constraints');
    expect(furthestStage(excluded.slice(0, 2))).toBe('policy');
    expect(furthestStage([])).toBe('unusable');
  });

  it('are never sent to an account where they cost more than the maximum, or that lacks the route', () => {
    const selection = select(
      [
        offer('a', [
          [account('dear'), 11n],
          [account('routeless', { routes: [] }), 1n],
          [account('fine', { priority: 5 }), 10n],
        ]),
      ],
      { constraints: { maxInputNanoUsd: 10n } },
    );
    expect(chosen(selection)).toEqual(['a: fine']);
    expect(selection.passedOver.map(({ connector, why }) => [connector.id, why])).toEqual([
      ['dear', expect.stringContaining('0.000000011 USD')],
      ['routeless', 'it does not serve the route'],
    ]);
  });

  it('count once if a profile names one twice', () => {
    const twice = offer('a', [[account('x'), 1n]]);
    expect(chosen(select([twice, twice]))).toEqual(['a: x']);
  });
});
