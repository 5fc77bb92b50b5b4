import type { IncomingHttpHeaders } from 'node:http';
import { parseWorkloadType, profileNameOf, type RoutingProfile, workloadTypeKey } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import { usageBacklog } from '../attempt/attempt.ts';
import { limitOutput } from '../attempt/limitOutput.ts';
import type { GenerationPlan, StoredPlan } from '../attempt/plan.ts';
import type { LeaseBook } from '../budget/leaseBook.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { ResponseOwners } from '../control/responseOwners.ts';
import { type RoutingTable, upstreamNameAt } from '../control/routingTable.ts';
import type { Target, Targets } from '../control/target.ts';
import type { Body } from '../formats/body.ts';
import { type Call, readCall, upstreamBody } from '../formats/call.ts';
import { requireForeseeable } from '../formats/hardLimits.ts';
import { type Operation, STORED_RESPONSE } from '../formats/operation.ts';
import type { PreparedRequest } from '../observe/attempt.ts';
import type { UsageLog } from '../record/usageLog.ts';
import { drawOf, pinKeyOf } from '../routing/pinKey.ts';
import type { Decided, Pins } from '../routing/pins.ts';
import { findProfile, type ProfileDeps, targetsOfProfile } from '../routing/profiles.ts';
import { targetAt, targetsFor } from '../routing/targetsFor.ts';
import { admitModel, assertAllowed } from './admitModel.ts';
import { connectorsOfResponse, ownerOfPrevious } from './storedResponses.ts';

export interface PlanDeps extends Pick<ProfileDeps, 'strata'> {
  readonly usage: Pick<UsageLog, 'hasRoom'>;
  readonly budget: Pick<LeaseBook, 'headroom'>;
  readonly owners: ResponseOwners;
  readonly pins: Pins;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** A request for a model to generate a response. */
export interface Generation {
  readonly kind: 'generation';
  readonly operation: Operation;
  readonly body: Body;
}

/** A request for a response that a vendor stored. */
export interface StoredResponse {
  readonly kind: 'stored_response';
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly responseId: string;
  /** The path after the id, such as `/input_items`. */
  readonly rest: string;
}

/** The caller of a request, and its headers. */
interface Sender {
  readonly key: ResolvedKey;
  readonly headers: IncomingHttpHeaders;
}

/** Admits a request and chooses its targets; a promise only where a pin or an owner has to be looked up. */
export function planGeneration(
  deps: PlanDeps,
  sender: Sender,
  { operation, body }: Generation,
  table: RoutingTable,
): GenerationPlan | Promise<GenerationPlan> {
  const call = readCall(operation, body);
  const profile = profileOf(sender.key, call, table);
  const chosen = choose(deps, sender, call, profile, table);
  return chosen instanceof Promise
    ? chosen.then((decided) => planOf(deps, sender.key, call, profile, decided))
    : planOf(deps, sender.key, call, profile, chosen);
}

function planOf(
  deps: PlanDeps,
  key: ResolvedKey,
  call: Call,
  profile: RoutingProfile | undefined,
  { targets, served, isPinned }: Chosen,
): GenerationPlan {
  const { operation } = call;
  const isHard = ({ isHard }: ResolvedKey, { model }: Target) => isHard && operation.isBilled && !model.free;
  if (targets.some((target) => isHard(key, target))) requireForeseeable(operation, call.body.whole());
  return {
    kind: 'generation',
    operation,
    call,
    targets,
    profile,
    isPinned,
    method: 'POST',
    path: operation.path,
    prepare(target, current) {
      if (current !== key) {
        // The key was refreshed after the request was planned.
        assertAllowed(current, target.model);
        if (isHard(current, target)) requireForeseeable(operation, call.body.whole());
      }
      return isHard(current, target)
        ? limitOutput(deps.budget, current, call, target).then((limited) => prepared(target, limited))
        : prepared(target, call);
    },
    served,
    hideUsage: operation.asksForUsage && call.stream && !call.wantsUsage,
  };
}

function prepared({ model, connector }: Target, call: Call): PreparedRequest {
  const body = upstreamBody(call, upstreamNameAt(model, connector));
  return { connector, body, modelRequest: { model, connector, call } };
}

/** The profile that a request names; undefined where it names a model. */
function profileOf(key: ResolvedKey, { model }: Call, table: RoutingTable): RoutingProfile | undefined {
  const name = profileNameOf(model);
  return name === undefined ? undefined : findProfile(name, key, table);
}

/** Chooses the targets. A request of a session goes to the target of the session's first request. */
function choose(
  deps: PlanDeps,
  sender: Sender,
  call: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
): Chosen | Promise<Chosen> {
  const { key, headers } = sender;
  const pinKey = pinKeyOf({ principalId: key.principalId, headers, call });
  if (pinKey !== undefined || call.previousResponseId !== undefined) {
    return lookUp(deps, sender, call, profile, table, pinKey);
  }
  const targets = recordable(deps, call.operation, targetsOf(deps, sender, call, profile, table));
  return { targets, served: () => {}, isPinned: false };
}

/** Chooses the targets of a request that belongs to a session or continues a stored response. */
async function lookUp(
  deps: PlanDeps,
  sender: Sender,
  call: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
  pinKey: string | undefined,
): Promise<Chosen> {
  const { targets, served, isPinned } =
    pinKey === undefined
      ? { targets: targetsOf(deps, sender, call, profile, table), served: () => {}, isPinned: false }
      : await decideByPin(deps, sender, call, profile, table, pinKey);
  const usable = recordable(deps, call.operation, targets);
  const { previousResponseId } = call;
  if (previousResponseId === undefined) return { targets: usable, served, isPinned };
  return { targets: await ownerOnly(deps.owners, sender.key, previousResponseId, usable), served, isPinned };
}

interface Chosen extends Decided {
  readonly isPinned: boolean;
}

async function decideByPin(
  deps: PlanDeps,
  sender: Sender,
  call: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
  pinKey: string,
): Promise<Chosen> {
  const { route } = call.operation;
  const { policies } = sender.key;
  const { targets, served } = await deps.pins.decide({
    key: pinKey,
    targets: targetsOf({ ...deps, random: drawOf(pinKey) }, sender, call, profile, table),
    // Whether or not the profile still names it: edits of a profile apply to new sessions.
    find: (modelId, connectorId) =>
      policies.every((policy) => policy.allows(modelId))
        ? targetAt(modelId, connectorId, route, table)
        : undefined,
  });
  return { targets, served, isPinned: true };
}

/** The targets of the model that a request names, or of its profile. */
function targetsOf(
  { random, strata }: Pick<PlanDeps, 'random' | 'strata'>,
  { key, headers }: Sender,
  { operation: { route }, model }: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
): Targets {
  if (!profile) return targetsFor([admitModel(key, model, table)], route, table, random);
  const workloadType = workloadTypeKey(parseWorkloadType(headers));
  return targetsOfProfile({ random, strata }, profile, { key, route, workloadType }, table);
}

/** While usage can't be recorded, only free models are used. */
function recordable({ usage }: PlanDeps, { isBilled }: Operation, targets: Targets): Targets {
  if (!isBilled || usage.hasRoom()) return targets;
  const [first, ...others] = targets.filter(({ model: { free } }) => free);
  return first ? [first, ...others] : raise(usageBacklog());
}

/** Only the account that stored the previous response can continue it. */
async function ownerOnly(
  owners: ResponseOwners,
  key: ResolvedKey,
  previousResponseId: string,
  targets: Targets,
): Promise<Targets> {
  const owner = await ownerOfPrevious(owners, key, previousResponseId);
  return [targets.find(({ connector }) => connector.id === owner) ?? targets[0]];
}

/** Finds the connectors that may have a stored response; rejects with a 404 where the caller may not see it. */
export async function planStored(
  deps: PlanDeps,
  key: ResolvedKey,
  { method, responseId, rest }: StoredResponse,
  table: RoutingTable,
): Promise<StoredPlan> {
  return {
    kind: 'stored_response',
    operation: STORED_RESPONSE,
    connectors: await connectorsOfResponse(deps.owners, key, responseId, table),
    method,
    path: `${STORED_RESPONSE.path}/${encodeURIComponent(responseId)}${rest}`,
    hideUsage: false,
  };
}
