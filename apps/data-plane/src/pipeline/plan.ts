import type { LeaseBook } from '../budget/leaseBook.ts';
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
import type { UsageLog } from '../usage/usageLog.ts';
import { admit, usageBacklog } from './admit.ts';
import { limitAnswer } from './limitAnswer.ts';
import { inOrder } from './order.ts';
import { connectorsFor } from './route.ts';
import { connectorsOfResponse, makerOfPrevious } from './storedResponses.ts';

export interface PlanDeps {
  readonly usage: Pick<UsageLog, 'hasRoom'>;
  readonly budget: Pick<LeaseBook, 'room'>;
  readonly owners: ResponseOwners;
  /** From 0 up to 1. */
  readonly random: () => number;
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
  /** What a connector is sent: its account may call the model by another name. */
  readonly bodyAt: (connector: RoutableConnector) => Buffer | undefined;
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
  const model = admit(key, call.model, table);
  if (operation.isBilled && !model.free && !deps.usage.hasRoom()) throw usageBacklog();
  const serving = connectorsFor(model, operation.route, table);
  const maker =
    call.previousResponseId === undefined
      ? undefined
      : await makerOfPrevious(deps.owners, key, call.previousResponseId);
  const connectors =
    call.previousResponseId === undefined
      ? inOrder(serving, deps.random)
      : ([serving.find((connector) => connector.id === maker) ?? serving[0]] as const);
  const [chosen] = connectors;
  const isHard = key.isHard && operation.isBilled && !model.free;
  const sent = isHard ? await limitAnswer(deps.budget, key, call, { model, connector: chosen }) : call;
  return {
    operation,
    connectors,
    method: 'POST',
    path: operation.path,
    bodyAt: bodiesOf(sent, model),
    work: { call: sent, model },
    hideUsage: operation.asksForUsage && call.stream && !call.wantsUsage,
  };
}

/** The newest one is kept: an attempt looks at it more than once. */
function bodiesOf(call: Call, model: RoutableModel): Plan['bodyAt'] {
  let newest: { readonly name: string; readonly body: Buffer } | undefined;
  return (connector) => {
    const name = upstreamNameAt(model, connector);
    if (newest?.name !== name) newest = { name, body: upstreamBody(call, name) };
    return newest.body;
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
    bodyAt: () => undefined,
    work: undefined,
    hideUsage: false,
  };
}
