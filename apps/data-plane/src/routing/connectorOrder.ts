import { drawnByWeight } from '@weighbridge/domain';
import type { RoutableConnector } from '@weighbridge/state';

/**
 * The order in which a request tries connectors: by priority, and within one priority at random by weight. `draw` is from
 * 0 up to 1; if it is a function of the id alone, this is weighted rendezvous hashing.
 */
export function orderConnectors(
  connectors: readonly RoutableConnector[],
  draw: (connectorId: string) => number,
): readonly RoutableConnector[] {
  if (connectors.length < 2) return connectors;
  return drawnByWeight(connectors, ({ id }) => draw(id)).toSorted((a, b) => a.priority - b.priority);
}
