import type { Connector } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import type { RoutableModel, RoutingTable } from '../control/routingTable.ts';

/** The connector that serves a model: of those of its provider, the one of the first priority. */
export function chooseConnector(model: RoutableModel, table: RoutingTable): Connector {
  const [first] = table.connectors.get(model.provider) ?? [];
  return (
    first ??
    raise(
      new AppError(
        'not_found',
        'model_not_found',
        `No enabled connector serves the provider "${model.provider}".`,
        {
          param: 'model',
        },
      ),
    )
  );
}
