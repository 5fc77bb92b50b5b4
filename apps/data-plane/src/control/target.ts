import type { RoutableConnector, RoutableModel } from './routingTable.ts';

/** A model at a connector: what a request for it may be sent to. */
export interface Target {
  readonly model: RoutableModel;
  readonly connector: RoutableConnector;
}

/** In the order in which they are to be tried. */
export type Targets = readonly [Target, ...Target[]];
