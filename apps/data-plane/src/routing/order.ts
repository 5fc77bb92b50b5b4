import { drawnByWeight } from '@weighbridge/domain';
import type { RoutableConnector } from '../control/routingTable.ts';

/**
 * The order in which one request tries connectors: by priority, and at random within one, each first with the probability
 * of its share of the weights. `draw` is from 0 up to 1; where it draws the same for the same id, this is weighted
 * rendezvous hashing.
 */
export function inOrder(
  connectors: readonly RoutableConnector[],
  draw: (connectorId: string) => number,
): readonly RoutableConnector[] {
  if (connectors.length < 2) return connectors;
  return drawnByWeight(connectors, ({ id }) => draw(id)).toSorted((a, b) => a.priority - b.priority);
}
