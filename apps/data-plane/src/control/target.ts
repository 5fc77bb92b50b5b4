import type { RoutableConnector, RoutableModel } from '@weighbridge/state';

/** A model at a connector, to which a request may be sent. */
export interface Target {
  readonly model: RoutableModel;
  readonly connector: RoutableConnector;
}

/** In the order in which to try them. */
export type Targets = readonly [Target, ...Target[]];
