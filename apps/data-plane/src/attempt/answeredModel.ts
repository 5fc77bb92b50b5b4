import { costOf, type MeteredUsage, standardUsage, type TokenUsage } from '@weighbridge/domain';
import {
  priceAt,
  type RoutableConnector,
  type RoutableModel,
  type RoutingTable,
  upstreamNameAt,
} from '@weighbridge/state';
import { parseSmall } from '../formats/fieldReader.ts';
import { isRecord } from '../formats/jsonFields.ts';
import type { Charge } from './charge.ts';
import type { ModelRequest } from './preparedRequest.ts';

/** The model whose price an attempt is charged. */
export interface ChargedModel {
  readonly model: RoutableModel;
  /** Its id, if it is not the model that was asked; else empty. */
  readonly pricedModel: string;
  readonly unpriced: readonly string[];
}

const NOTHING_UNPRICED: readonly string[] = [];

/**
 * A request that names one model is priced by it. One that names several is priced by the model that the response names; if
 * that is not known, by the dearest of those that the request names.
 */
export function answeredModel(
  { model: name, usage, toolUses }: Charge,
  request: ModelRequest,
  table: RoutingTable | undefined,
): ChargedModel {
  const { model: asked, generation } = request;
  if (!generation.namesSeveralModels) return { model: asked, pricedModel: '', unpriced: NOTHING_UNPRICED };
  const known = name === '' ? undefined : findModel(name, request, table);
  if (known) return { model: known, pricedModel: idUnless(known, asked), unpriced: NOTHING_UNPRICED };
  const named = namedModels(request).flatMap((other) => findModel(other, request, table) ?? []);
  const metered: MeteredUsage = {
    tokens: usage,
    service: { serviceTier: '', speed: '', geography: '' },
    toolUses,
  };
  const dearest = dearestOf([asked, ...named], metered, request);
  return { model: dearest, pricedModel: idUnless(dearest, asked), unpriced: [`model:${name}`] };
}

/** The models that may have the price of another model that worked on a response: the model itself, or all of its provider. */
export function otherModel(
  name: string,
  request: At,
  table: RoutingTable | undefined,
): { readonly models: readonly RoutableModel[]; readonly unpriced: readonly string[] } {
  const known = findModel(name, request, table);
  if (known) return { models: [known], unpriced: NOTHING_UNPRICED };
  const { provider } = request.connector;
  const all = [...(table?.models.values() ?? [])].filter((model) => model.provider === provider);
  return { models: all, unpriced: [`model:${name}`] };
}

/** The id of the dearest of those, for usage of a response whose request is gone; empty if no model is known. */
export function otherModelId(
  name: string,
  tokens: TokenUsage,
  connector: RoutableConnector,
  table: RoutingTable | undefined,
): string {
  const { models } = otherModel(name, { connector }, table);
  return models.length === 0 ? '' : dearestOf(models, standardUsage(tokens), { connector }).id;
}

/** Where a model is looked for, and the model that was asked for, if it is known. */
interface At extends Pick<ModelRequest, 'connector'> {
  readonly model?: RoutableModel;
}

function idUnless(model: RoutableModel, asked: RoutableModel): string {
  return model === asked || model.id === asked.id ? '' : model.id;
}

/** The date at the end of a vendor's full name of a model: `-20260101`, `-2026-01-01`. */
const DATE = /-(\d{8}|\d{4}-\d{2}-\d{2})$/;

/** A model of the connector's provider by its name at the vendor; if only its date is unknown, by its name without it. */
function findModel(name: string, request: At, table: RoutingTable | undefined): RoutableModel | undefined {
  const exact = modelNamed(name, request, table);
  return exact ?? (DATE.test(name) ? modelNamed(name.replace(DATE, ''), request, table) : undefined);
}

function modelNamed(
  name: string,
  { model: asked, connector }: At,
  table: RoutingTable | undefined,
): RoutableModel | undefined {
  const isNamed = (model: RoutableModel) =>
    model.upstreamName === name || upstreamNameAt(model, connector) === name || model.id === name;
  if (asked && isNamed(asked)) return asked;
  const id = `${connector.provider}/${name}`;
  const direct = table?.models.get(id) ?? table?.models.get(table.names.inCatalog(id)?.target ?? '');
  if (direct) return direct;
  for (const model of table?.models.values() ?? []) {
    if (model.provider === connector.provider && isNamed(model)) return model;
  }
  return undefined;
}

function dearestOf(models: readonly RoutableModel[], usage: MeteredUsage, { connector }: At): RoutableModel {
  const cost = (model: RoutableModel) =>
    costOf(usage, priceAt(model, connector).price, model.dearest).costNanoUsd;
  return models.reduce((most, one) => (cost(one) > cost(most) ? one : most));
}

/** A longer list names no models. */
const MAX_LIST_BYTES = 256 * 1024;
const MAX_NAMES = 128;

/** The other models that a request names: OpenRouter's `models`, Anthropic's `fallbacks`. */
function namedModels({ generation: { body, spans } }: ModelRequest): string[] {
  return ['models', 'fallbacks'].flatMap((field) => {
    const span = spans.get(field);
    const value = body.readJoined((bytes) => parseSmall(bytes, span, MAX_LIST_BYTES));
    if (!Array.isArray(value)) return [];
    return value.slice(0, MAX_NAMES).flatMap((item: unknown) => {
      const name = isRecord(item) ? item.model : item;
      return typeof name === 'string' ? [name] : [];
    });
  });
}
