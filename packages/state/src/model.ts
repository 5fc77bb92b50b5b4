import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Connector, Model, ModelSchema, UnservedModelSchema } from '@weighbridge/contracts';
import { type DearestPrices, isFree, type ModelPrice, type Price, priceInRegion } from '@weighbridge/domain';
import type { RoutableConnector } from './connector.ts';
import { priceMessage } from './price.ts';

/** The columns of a model that proxies need. */
export interface ModelColumns {
  readonly id: string;
  readonly provider: string;
  readonly upstream_name: string;
  /** The price's version. */
  readonly version: number;
  readonly price: Price;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: readonly string[];
  readonly other_names: readonly string[];
  readonly own: boolean;
  /** The mean of its published benchmark scores, from 0 to 100; undefined if none is published. */
  readonly avgScore: number | undefined;
}

/** The model as proxies get it. */
export function modelMessage(row: ModelColumns): MessageInitShape<typeof ModelSchema> {
  return {
    id: row.id,
    provider: row.provider,
    upstreamName: row.upstream_name,
    price: priceMessage(row.version, row.price),
    contextWindow: row.context_window,
    ...(row.max_output_tokens !== null && { maxOutputTokens: row.max_output_tokens }),
    ...(row.avgScore !== undefined && { score: row.avgScore }),
    capabilities: [...row.capabilities],
    otherNames: [...row.other_names],
    own: row.own,
  };
}

/** A model that no connector serves, as far as a refusal names it. */
export function unservedMessage({
  id,
  other_names,
  own,
}: Pick<ModelColumns, 'id' | 'other_names' | 'own'>): MessageInitShape<typeof UnservedModelSchema> {
  return { id, otherNames: [...other_names], own };
}

/** A model as requests use it. */
export interface RoutableModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  /** Its provider's other names of it. */
  readonly otherNames: readonly string[];
  /** Its provider made it. False if the provider serves a model that another company made. */
  readonly own: boolean;
  /** The catalog's price; `priceAt` has the price at a connector. */
  readonly price: ModelPrice;
  /** The same in those regions of a cloud that connectors are in. */
  readonly regional?: ReadonlyMap<string, ModelPrice>;
  /** What the price does not cover is charged at these prices. */
  readonly dearest: DearestPrices;
  /** Free at every connector that may serve it. */
  readonly free: boolean;
  /** The model's output limit; undefined if unknown. */
  readonly maxOutputTokens: number | undefined;
  readonly contextWindow: number;
  /** The mean of its published benchmark scores, 0 to 100. */
  readonly score: number | undefined;
  readonly capabilities: readonly string[];
}

/** The inverse of `modelMessage`, at the connectors of its provider. */
export function routableModel(
  model: Model,
  price: ModelPrice,
  dearest: DearestPrices,
  connectors: readonly RoutableConnector[],
): RoutableModel {
  const { id, provider, upstreamName, otherNames, own } = model;
  const { maxOutputTokens, contextWindow, score, capabilities } = model;
  const negotiated = connectors.flatMap((connector) => connector.negotiated.get(id) ?? []);
  const free = [price, ...negotiated].every(isFree);
  const regional = regionalPrices(price, connectors);
  const facts = { maxOutputTokens, contextWindow, score, capabilities };
  return { id, provider, upstreamName, otherNames, own, price, ...regional, dearest, free, ...facts };
}

/** A price in those regions of connectors in which it is another one; undefined if there is none. */
function regionalPrices(
  price: ModelPrice,
  connectors: readonly RoutableConnector[],
): Pick<RoutableModel, 'regional'> {
  const prices = connectors.flatMap(({ region = '' }) => {
    const there = region === '' ? price : priceInRegion(price, region);
    return there === price ? [] : [[region, there] as const];
  });
  return prices.length === 0 ? {} : { regional: new Map(prices) };
}

/** A model's price at a connector: the negotiated one, else the catalog's, in the connector's region. */
export function priceAt(
  model: RoutableModel,
  connector: RoutableConnector,
): { readonly price: ModelPrice; readonly source: 'catalog' | 'connector' } {
  const negotiated = connector.negotiated.get(model.id);
  if (negotiated) return { price: negotiated, source: 'connector' };
  const regional = connector.region ? model.regional?.get(connector.region) : undefined;
  return { price: regional ?? model.price, source: 'catalog' };
}

/** A model's name at a connector's account. */
export function upstreamNameAt(model: RoutableModel, connector: Connector): string {
  const { upstreamNames } = connector;
  return (Object.hasOwn(upstreamNames, model.id) && upstreamNames[model.id]) || model.upstreamName;
}
