import type { RoutingProfile } from '@weighbridge/domain';
import type { AppError } from '@weighbridge/errors';
import type { RoutableConnector } from '@weighbridge/state';
import type { Targets } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { Operation } from '../formats/operation.ts';
import type { NamedObject } from '../formats/storedObjects.ts';
import type { PinDecision } from '../routing/sessionPins.ts';
import type { Preparation } from './preparation.ts';

/** What is decided of a request before anything is sent. */
export type Plan = GenerationPlan | StoredPlan;

interface AnyPlan {
  readonly operation: Operation;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** The client gets the events of a stream as one JSON array. Default: false. */
  readonly streamsArray?: boolean;
  /** Drop the usage chunk of a stream: the client did not ask for it. */
  readonly hideUsage: boolean;
}

export interface GenerationPlan extends AnyPlan {
  readonly kind: 'generation';
  /** The request as the client sent it. */
  readonly generation: GenerationRequest;
  /** What the requested name stands for: the id of a model, or `router/<profile>`. */
  readonly model: string;
  /** The name that the vendor of that model gets, if the request gave it another one of its names. */
  readonly sentName: string | undefined;
  readonly targets: Targets;
  /** Undefined if the request names a model. */
  readonly profile: RoutingProfile | undefined;
  /** The request belongs to a session, whose target is the first. */
  readonly isPinned: boolean;
  /** A count of tokens is asked for, which the first target's vendor can't give: nothing is sent, and it is estimated. */
  readonly isEstimated?: boolean;
  /** Undefined if the request names no stored object. */
  readonly objects: ObjectAccess | undefined;
  /** What is sent, by target. */
  readonly preparation: Preparation;
  /** To be called with the target that answered. */
  readonly savePin: PinDecision['savePin'];
}

export interface StoredPlan extends AnyPlan {
  readonly kind: 'stored_response';
  /** Set if the response itself is read, and its final usage is not known yet. */
  readonly unfinished: { readonly responseId: string; readonly connectorId: string } | undefined;
  readonly responseId: string;
  /** The caller made it. */
  readonly isOwn: boolean;
  /** The memory of the largest container that was recorded with it. */
  readonly containerGb: number;
  /** In the order in which they are asked. */
  readonly connectors: readonly [RoutableConnector, ...RoutableConnector[]];
}

/** What a request may do with the stored objects that it names. */
export interface ObjectAccess {
  /** The connector that has them; undefined if no one knows. */
  readonly connectorId: string | undefined;
  /** Those that are not on record as the caller's, and not there as a whole. */
  readonly others: readonly NamedObject[];
  /** The ids of all that the caller is not on record as the maker of: if the answer has one, it repeats it. */
  readonly repeatable: ReadonlySet<string>;
  /** The memory of the largest container that a vendor may reuse for it; 0: none, or of 1 GB. */
  readonly containerGb: number;
  /** False: all that it names is there as a whole, so that the answer depends on no object. */
  readonly isReading: boolean;
  /** The one 404 for those that do not exist, are another principal's, or are refused by a policy; undefined without `others`. */
  readonly notFound: AppError | undefined;
  /** `notFound` is the answer, and no vendor gets the request. */
  readonly isRefused: boolean;
}

/**
 * Throws the 404 for a request that names another principal's object. Only now, when a vendor would be asked about an unknown
 * one: the limits of the key are checked for both.
 */
export function assertMaySend(plan: Plan): void {
  if (plan.kind === 'generation' && plan.objects?.isRefused) throw plan.objects.notFound;
}
