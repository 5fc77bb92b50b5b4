import type { RoutingProfile } from '@weighbridge/domain';
import type { RoutableConnector } from '../control/routingTable.ts';
import type { Target, Targets } from '../control/target.ts';
import type { Call } from '../formats/call.ts';
import type { Operation } from '../formats/operation.ts';
import type { Outgoing } from '../observe/attempt.ts';
import type { Decided } from '../routing/pins.ts';

/** What is settled of a request before anything is sent. */
export type Plan = GenerationPlan | StoredPlan;

interface AnyPlan {
  readonly operation: Operation;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** A chunk that the caller did not ask for must not reach it. */
  readonly hideUsage: boolean;
}

export interface GenerationPlan extends AnyPlan {
  readonly kind: 'generation';
  /** As it came. */
  readonly call: Call;
  readonly targets: Targets;
  /** Undefined where a model was asked for. */
  readonly profile: RoutingProfile | undefined;
  /** It is one of a session, whose target is the first. */
  readonly isPinned: boolean;
  /**
   * What a target is sent: its account may call the model by another name, and under a hard budget each model has a limit
   * of its own. Rejects where it can't be sent there; may wait for room in the budgets.
   */
  readonly prepare: (target: Target) => Outgoing | Promise<Outgoing>;
  /** To be told which target answered. */
  readonly served: Decided['served'];
}

export interface StoredPlan extends AnyPlan {
  readonly kind: 'stored response';
  /** In the order in which they are to be asked. */
  readonly connectors: readonly [RoutableConnector, ...RoutableConnector[]];
}
