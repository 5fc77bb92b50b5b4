import { AppError, raise } from '@weighbridge/errors';
import type { RoutableConnector, RoutableModel, RoutingTable } from '../control/routingTable.ts';

/** The connector that serves a model: of those of its provider that may, the one of the first priority. */
export function chooseConnector(model: RoutableModel, table: RoutingTable): RoutableConnector {
  const first = table.connectors.get(model.provider)?.find((connector) => connector.serves(model.id));
  return (
    first ??
    raise(
      new AppError('not_found', 'model_not_found', `No enabled connector serves the model ${model.id}.`, {
        param: 'model',
      }),
    )
  );
}
