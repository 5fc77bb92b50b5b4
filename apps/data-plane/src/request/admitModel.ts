import { didYouMean, parseModelId, shortened } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  canAnswer,
  type ResolvedKey,
  type RoutableConnector,
  type RoutableModel,
  type RoutedOperation,
  type RoutingTable,
} from '@weighbridge/state';
import { isAllowed, notAllowed } from '../routing/allowedModels.ts';
import { nearestModels } from './nearestModels.ts';

/** The model of a request. */
export interface AskedModel {
  /** What the requested name stands for; the name itself if it is unknown. */
  readonly model: string;
  /** As the request names it. */
  readonly asked: string;
  readonly operation: RoutedOperation;
}

/** The model that a request names: it exists, is priced, and every policy of the key allows it. Throws 403 or 404. */
export function admitModel(key: ResolvedKey, named: AskedModel, table: RoutingTable): RoutableModel {
  const model = table.models.get(named.model);
  if (!model) throw unknownModel(key, named, table);
  if (!isAllowed(key, model.id)) throw notAllowed(model.id, 'model', named.asked);
  return model;
}

function unknownModel(key: ResolvedKey, { asked, operation }: AskedModel, table: RoutingTable): AppError {
  const isOnRoute = (connector: RoutableConnector) => canAnswer(connector, operation);
  const meant = didYouMean(nearestModels(key, asked, table, isOnRoute));
  const message = `There is no model ${shortened(asked)}. ${whyUnknown(key, asked, table)}${meant} GET /v1/models lists the models.`;
  return new AppError('not_found', 'model_not_found', message, { param: 'model' });
}

function whyUnknown(key: ResolvedKey, asked: string, table: RoutingTable): string {
  const id = parseModelId(asked);
  const name = id && table.connectors.has(id.provider) ? id.name : asked;
  if (FINE_TUNED.test(name)) {
    return 'A fine-tuned model has its own prices: an operator can add it by PUT /api/v1/catalog/models/<provider>/<model>.';
  }
  // Whatever a policy keeps from a key stays unknown to it.
  const unserved = table.unserved(asked);
  if (unserved !== undefined && isAllowed(key, unserved)) {
    return `The catalog has it as ${shortened(unserved)}, and no enabled connector of the provider "${providerOf(unserved)}" serves it with a price: an operator can add one.`;
  }
  if (!id) return 'No priced model that an enabled connector serves has this name.';
  return table.connectors.has(id.provider)
    ? `The provider ${id.provider} has no priced model of this name that an enabled connector serves.`
    : `No enabled connector serves the provider "${id.provider}".`;
}

function providerOf(modelId: string): string {
  return modelId.slice(0, modelId.indexOf('/'));
}

const FINE_TUNED = /^ft:/;
