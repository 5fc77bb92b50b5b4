import type { TokenPrices } from '../modelPrice.ts';
import type { Draw } from './draw.ts';
import type { RoutingProfile } from './profile.ts';
import { blendedPrice, type Candidate, type Judged, overCeiling, rank } from './rank.ts';

/** A model of a profile, with its current state. */
export type Offer<Connector> =
  /** Why no request can use it. */
  | { readonly model: string; readonly unusable: string }
  | (Omit<Candidate, 'price'> & {
      readonly isAllowed: boolean;
      /** The enabled connectors that serve it, with its price at each; at least one. */
      readonly connectors: readonly { readonly connector: Connector; readonly price: TokenPrices }[];
    });

/** The stages of selection, in order. An excluded model has the stage that excluded it. */
export const STAGES = ['unusable', 'policy', 'route', 'constraints'] as const;
export type Stage = (typeof STAGES)[number];

export interface Selection<Connector> {
  /** Best first, each with its connectors, best first; at least one. */
  readonly ranked: readonly (Judged & { readonly connectors: readonly Connector[] })[];
  readonly excluded: readonly (Judged & { readonly stage: Stage })[];
  /** The connectors of ranked models that are not used, with the reason. */
  readonly passedOver: readonly (Judged & {
    readonly stage: Extract<Stage, 'route' | 'constraints'>;
    readonly connector: Connector;
  })[];
}

export interface SelectionDeps<Connector> {
  /** Whether a connector serves the request's route. */
  readonly servesRoute: (connector: Connector) => boolean;
  /** Orders the connectors of one model, regardless of price. */
  readonly inOrder: (connectors: readonly Connector[]) => readonly Connector[];
  readonly random: Draw;
}

/**
 * Selects and orders the models of a profile for a request, and gives the reasons for the excluded ones. A maximum price
 * applies per connector: one where the model costs more is not used. Under `cheapest`, a model's cheaper connectors come
 * first, whatever their priorities.
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

/** The last stage that excluded a model: the reason to report if no model is left. */
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
  /** The usable connectors of each candidate. */
  readonly serving: ReadonlyMap<string, readonly Priced<Connector>[]>;
}

/** Separates the models to rank from those excluded before. */
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

/** Stable: connectors of equal price keep their order. */
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
