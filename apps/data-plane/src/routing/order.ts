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
  const drawn = connectors.map((connector) => ({ connector, at: arrival(connector, draw(connector.id)) }));
  drawn.sort((a, b) => a.connector.priority - b.connector.priority || a.at - b.at);
  return drawn.map(({ connector }) => connector);
}

/** The first of exponential arrivals is each one's with the probability of its rate's share (Efraimidis and Spirakis, 2006). */
function arrival({ weight }: RoutableConnector, drawn: number): number {
  // 0 is from a control plane that does not tell.
  return -Math.log(1 - drawn) / (weight || 1);
}
