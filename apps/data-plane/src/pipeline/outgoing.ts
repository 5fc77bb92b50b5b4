import type { Body } from '../body/body.ts';
import type { RoutableConnector } from '../control/routingTable.ts';
import type { Call } from '../operations/call.ts';
import type { Target } from '../routing/target.ts';

/** What is sent to one connector. */
export interface Outgoing {
  readonly connector: RoutableConnector;
  readonly body: Body | undefined;
  /** What a model is asked to do; undefined where none works. */
  readonly work: Work | undefined;
}

/** A call of one model, with the limits that hold for it there. */
export interface Work extends Target {
  readonly call: Call;
}
