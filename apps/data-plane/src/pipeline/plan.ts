import { AppError } from '@weighbridge/errors';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { ResponseOwners } from '../control/responseOwners.ts';
import {
  type RoutableConnector,
  type RoutableModel,
  type RoutingTable,
  upstreamNameAt,
} from '../control/routingTable.ts';
import { type Call, readCall, upstreamBody } from '../operations/call.ts';
import { type Operation, STORED_RESPONSE } from '../operations/operation.ts';
import type { UsagePublisher } from '../usage/usagePublisher.ts';
import { admit } from './admit.ts';
import { connectorsFor } from './route.ts';
import { connectorsOfResponse, makerOfPrevious } from './storedResponses.ts';

export interface PlanDeps {
  readonly usage: Pick<UsagePublisher, 'hasRoom'>;
  readonly owners: ResponseOwners;
}

/** A model is asked to do something. */
export interface Generation {
  readonly kind: 'generation';
  readonly operation: Operation;
  readonly body: Buffer;
}

/** Something is wanted of a response that a vendor keeps. */
export interface StoredResponse {
  readonly kind: 'stored response';
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly responseId: string;
  /** Behind the id: `/input_items`. */
  readonly rest: string;
}

/** What is settled of a request before anything is sent. */
export interface Plan {
  readonly operation: Operation;
  /** In the order in which they are to be tried. */
  readonly connectors: readonly [RoutableConnector, ...RoutableConnector[]];
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body: Buffer | undefined;
  /** Undefined where no model works. */
  readonly work: { readonly call: Call; readonly model: RoutableModel } | undefined;
  /** A chunk that the caller did not ask for must not reach it. */
  readonly hideUsage: boolean;
}

/** Admits a call of a model, and chooses where it goes. */
export async function planGeneration(
  deps: PlanDeps,
  key: ResolvedKey,
  { operation, body }: Generation,
  table: RoutingTable,
): Promise<Plan> {
  const call = readCall(operation, body);
  const model = admit(key, call.model, table, { needsBudget: operation.isBilled });
  if (operation.isBilled && !deps.usage.hasRoom()) {
    const message = 'Usage can not be recorded right now, so nothing is spent. Try again.';
    throw new AppError('unavailable', 'usage_backlog', message);
  }
  const connectors = connectorsFor(model, operation.route, table);
  const maker =
    call.previousResponseId === undefined
      ? undefined
      : await makerOfPrevious(deps.owners, key, call.previousResponseId);
  const keeper = connectors.find((connector) => connector.id === maker);
  const [chosen] = keeper ? [keeper] : connectors;
  return {
    operation,
    connectors: keeper ? [keeper] : connectors,
    method: 'POST',
    path: operation.path,
    // What works is tried at the chosen one only: its account may call the model by another name.
    body: upstreamBody(call, upstreamNameAt(model, chosen)),
    work: { call, model },
    hideUsage: operation.asksForUsage && call.stream && !call.wantsUsage,
  };
}

/** Finds out where a stored response is, and whether the caller may have it. */
export async function planStored(
  deps: PlanDeps,
  key: ResolvedKey,
  { method, responseId, rest }: StoredResponse,
  table: RoutingTable,
): Promise<Plan> {
  return {
    operation: STORED_RESPONSE,
    connectors: await connectorsOfResponse(deps.owners, key, responseId, table),
    method,
    path: `${STORED_RESPONSE.path}/${encodeURIComponent(responseId)}${rest}`,
    body: undefined,
    work: undefined,
    hideUsage: false,
  };
}
