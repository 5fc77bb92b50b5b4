import type { TokenPrices } from '../pricing.ts';
import type { Draw } from './draw.ts';
import type { RoutingProfile } from './profile.ts';
import { blendedPrice, type Candidate, type Judged, overCeiling, rank } from './rank.ts';

/** A model of a profile as it stands where a request is routed. */
export type Offer<Connector> =
  /** Nobody can use it now, and why. */
  | { readonly model: string; readonly unusable: string }
  | (Omit<Candidate, 'price'> & {
      readonly isAllowed: boolean;
      /** Those that are enabled and serve it, with its price there; at least one. */
      readonly connectors: readonly { readonly connector: Connector; readonly price: TokenPrices }[];
    });

/** How far a model came before it was left out: the later ones are looked at only where the earlier ones let it pass. */
export const STAGES = ['unusable', 'policy', 'route', 'constraints'] as const;
export type Stage = (typeof STAGES)[number];

export interface Selection<Connector> {
  /** In the order in which they are to be tried, each with its connectors in theirs, of which there is one at least. */
  readonly ranked: readonly (Judged & { readonly connectors: readonly Connector[] })[];
  readonly excluded: readonly (Judged & { readonly stage: Stage })[];
  /** The connectors of ranked models that are not used all the same. */
  readonly passedOver: readonly (Judged & {
    readonly stage: Extract<Stage, 'route' | 'constraints'>;
    readonly connector: Connector;
  })[];
}

export interface SelectionDeps<Connector> {
  /** Whether a connector serves the route that was asked for. */
  readonly servesRoute: (connector: Connector) => boolean;
  /** Connectors of one model in the order in which they are to be tried, whatever they cost. */
  readonly inOrder: (connectors: readonly Connector[]) => readonly Connector[];
  readonly random: Draw;
}

/**
 * Which models of a profile a request may go to, in which order, and which it may not and why. A price ceiling holds at
 * each connector: one where the model costs more is not used. Under `cheapest` a model's cheaper connectors come first,
 * whatever their priorities: who asks for the cheapest means where the request goes.
 */
export function selectModels<Connector>(
  profile: Pick<RoutingProfile, 'strategy' | 'constraints'>,
  offers: readonly Offer<Connector>[],
  { servesRoute, inOrder, random }: SelectionDeps<Connector>,
): Selection<Connector> {
  const { candidates, serving, excluded, passedOver } = sifted(profile, offers, servesRoute);
  const { ranked, excluded: falling } = rank(profile, candidates, random);
  return {
    ranked: ranked.map(({ model, why }) => {
      const priced = serving.get(model) ?? [];
      const connectors = inOrder(priced.map(({ connector }) => connector));
      return {
        model,
        why,
        connectors: profile.strategy === 'cheapest' ? byPrice(connectors, priced) : connectors,
      };
    }),
    excluded: [
      ...excluded,
      ...falling.map(({ model, why }) => ({ model, stage: 'constraints' as const, why })),
    ],
    passedOver: passedOver.filter(({ model }) => ranked.some((judged) => judged.model === model)),
  };
}

/** The furthest that any model came: what stands between a request and an answer where no model is left. */
export function furthestStage(excluded: readonly { readonly stage: Stage }[]): Stage {
  return excluded.reduce<Stage>(
    (furthest, { stage }) => (STAGES.indexOf(stage) > STAGES.indexOf(furthest) ? stage : furthest),
    'unusable',
  );
}

interface Priced<Connector> {
  readonly connector: Connector;
  readonly price: TokenPrices;
}

interface Sifted<Connector> extends Pick<Selection<Connector>, 'excluded' | 'passedOver'> {
  readonly candidates: readonly Candidate[];
  /** The connectors that a candidate may go to. */
  readonly serving: ReadonlyMap<string, readonly Priced<Connector>[]>;
}

/** What is left to be ranked, and what is left out before. */
function sifted<Connector>(
  profile: Pick<RoutingProfile, 'constraints'>,
  offers: readonly Offer<Connector>[],
  servesRoute: (connector: Connector) => boolean,
): Sifted<Connector> {
  const excluded: Selection<Connector>['excluded'][number][] = [];
  const passedOver: Selection<Connector>['passedOver'][number][] = [];
  const serving = new Map<string, readonly Priced<Connector>[]>();
  const candidates: Candidate[] = [];
  const seen = new Set<string>();
  for (const offer of offers) {
    const { model } = offer;
    if (seen.has(model)) continue;
    seen.add(model);
    if ('unusable' in offer) {
      excluded.push({ model, stage: 'unusable', why: offer.unusable });
      continue;
    }
    if (!offer.isAllowed) {
      excluded.push({ model, stage: 'policy', why: 'the policies of the key do not allow it' });
      continue;
    }
    const onRoute = offer.connectors.filter(({ connector }) => servesRoute(connector));
    if (onRoute.length === 0) {
      excluded.push({ model, stage: 'route', why: 'none of its connectors serves the route' });
      continue;
    }
    const affordable = onRoute.filter(({ price }) => overCeiling(profile.constraints, price) === undefined);
    const used = affordable.length > 0 ? affordable : onRoute;
    serving.set(model, used);
    candidates.push({ ...offer, price: cheapest(used).price });
    for (const { connector, price } of offer.connectors) {
      if (!servesRoute(connector)) {
        passedOver.push({ model, connector, stage: 'route', why: 'it does not serve the route' });
        continue;
      }
      const why = overCeiling(profile.constraints, price);
      if (why !== undefined) passedOver.push({ model, connector, stage: 'constraints', why });
    }
  }
  return { candidates, serving, excluded, passedOver };
}

/** The cheapest first, and what costs the same as it was. */
function byPrice<Connector>(
  connectors: readonly Connector[],
  priced: readonly Priced<Connector>[],
): readonly Connector[] {
  const prices = new Map(priced.map(({ connector, price }) => [connector, blendedPrice(price)]));
  return connectors.toSorted((a, b) => Number((prices.get(a) ?? 0n) - (prices.get(b) ?? 0n)));
}

function cheapest<Connector>(priced: readonly Priced<Connector>[]): Priced<Connector> {
  return priced.reduce((best, other) =>
    blendedPrice(other.price) < blendedPrice(best.price) ? other : best,
  );
}
