import type { IncomingHttpHeaders } from 'node:http';
import { parseWorkloadType, profileNameOf, type RoutingProfile, workloadTypeKey } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import { usageBacklog } from '../attempt/attemptLog.ts';
import { limitAnswer } from '../attempt/limitAnswer.ts';
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
import type { Outgoing } from '../observe/attempt.ts';
import type { UsageLog } from '../record/usageLog.ts';
import { drawOf, pinKeyOf } from '../routing/pinKey.ts';
import type { Decided, Pins } from '../routing/pins.ts';
import { findProfile, type ProfileDeps, targetsOfProfile } from '../routing/profiles.ts';
import { targetAt, targetsFor } from '../routing/targetsFor.ts';
import { admit } from './admit.ts';
import { connectorsOfResponse, makerOfPrevious } from './storedResponses.ts';

export interface PlanDeps extends Pick<ProfileDeps, 'strata'> {
  readonly usage: Pick<UsageLog, 'hasRoom'>;
  readonly budget: Pick<LeaseBook, 'headroom'>;
  readonly owners: ResponseOwners;
  readonly pins: Pins;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** A model is asked to do something. */
export interface Generation {
  readonly kind: 'generation';
  readonly operation: Operation;
  readonly body: Body;
}

/** Something is wanted of a response that a vendor keeps. */
export interface StoredResponse {
  readonly kind: 'stored response';
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly responseId: string;
  /** Behind the id: `/input_items`. */
  readonly rest: string;
}

/** Whose a call is, and what it says of itself. */
interface Asker {
  readonly key: ResolvedKey;
  readonly headers: IncomingHttpHeaders;
}

/** Admits a call of a model, and chooses where it goes; a promise only where that has to be looked up. */
export function planGeneration(
  deps: PlanDeps,
  asker: Asker,
  { operation, body }: Generation,
  table: RoutingTable,
): GenerationPlan | Promise<GenerationPlan> {
  const call = readCall(operation, body);
  const profile = profileOf(asker.key, call, table);
  const chosen = choose(deps, asker, call, profile, table);
  return chosen instanceof Promise
    ? chosen.then((decided) => planOf(deps, asker.key, call, profile, decided))
    : planOf(deps, asker.key, call, profile, chosen);
}

function planOf(
  deps: PlanDeps,
  key: ResolvedKey,
  call: Call,
  profile: RoutingProfile | undefined,
  { targets, served, isPinned }: Chosen,
): GenerationPlan {
  const { operation } = call;
  const isHard = ({ model: { free } }: Target) => key.isHard && operation.isBilled && !free;
  if (key.isHard && targets.some(isHard)) requireForeseeable(operation, call.body.whole());
  return {
    kind: 'generation',
    operation,
    call,
    targets,
    profile,
    isPinned,
    method: 'POST',
    path: operation.path,
    prepare(target) {
      return isHard(target)
        ? limitAnswer(deps.budget, key, call, target).then((limited) => outgoing(target, limited))
        : outgoing(target, call);
    },
    served,
    hideUsage: operation.asksForUsage && call.stream && !call.wantsUsage,
  };
}

function outgoing({ model, connector }: Target, call: Call): Outgoing {
  const body = upstreamBody(call, upstreamNameAt(model, connector));
  return { connector, body, work: { model, connector, call } };
}

/** The profile that a call names; undefined where it names a model. */
function profileOf(key: ResolvedKey, { model }: Call, table: RoutingTable): RoutingProfile | undefined {
  const name = profileNameOf(model);
  return name === undefined ? undefined : findProfile(name, key, table);
}

/** Where a call goes: one of a session, to where the session's first one went. */
function choose(
  deps: PlanDeps,
  asker: Asker,
  call: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
): Chosen | Promise<Chosen> {
  const { key, headers } = asker;
  const pinKey = pinKeyOf({ principalId: key.principalId, headers, call });
  if (pinKey !== undefined || call.previousResponseId !== undefined) {
    return lookUp(deps, asker, call, profile, table, pinKey);
  }
  const targets = recordable(deps, call.operation, targetsOf(deps, asker, call, profile, table));
  return { targets, served: () => {}, isPinned: false };
}

/** Where a call goes that is one of a session, or goes on from an answer that a vendor keeps. */
async function lookUp(
  deps: PlanDeps,
  asker: Asker,
  call: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
  pinKey: string | undefined,
): Promise<Chosen> {
  const { targets, served, isPinned } =
    pinKey === undefined
      ? { targets: targetsOf(deps, asker, call, profile, table), served: () => {}, isPinned: false }
      : await decideByPin(deps, asker, call, profile, table, pinKey);
  const usable = recordable(deps, call.operation, targets);
  const { previousResponseId } = call;
  if (previousResponseId === undefined) return { targets: usable, served, isPinned };
  return { targets: await keeperFirst(deps.owners, asker.key, previousResponseId, usable), served, isPinned };
}

interface Chosen extends Decided {
  readonly isPinned: boolean;
}

async function decideByPin(
  deps: PlanDeps,
  asker: Asker,
  call: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
  pinKey: string,
): Promise<Chosen> {
  const { route } = call.operation;
  const { policies } = asker.key;
  const { targets, served } = await deps.pins.decide({
    key: pinKey,
    targets: targetsOf({ ...deps, random: drawOf(pinKey) }, asker, call, profile, table),
    // In its profile's order or not: an edit of that is for new sessions.
    find: (modelId, connectorId) =>
      policies.every((policy) => policy.allows(modelId))
        ? targetAt(modelId, connectorId, route, table)
        : undefined,
  });
  return { targets, served, isPinned: true };
}

/** Where a call may go: to the model that it names, or to those of its profile. */
function targetsOf(
  { random, strata }: Pick<PlanDeps, 'random' | 'strata'>,
  { key, headers }: Asker,
  { operation: { route }, model }: Call,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
): Targets {
  if (!profile) return targetsFor([admit(key, model, table)], route, table, random);
  const workloadType = workloadTypeKey(parseWorkloadType(headers));
  return targetsOfProfile({ random, strata }, profile, { key, route, workloadType }, table);
}

/** Where usage can't be written down, only what costs nothing goes on. */
function recordable({ usage }: PlanDeps, { isBilled }: Operation, targets: Targets): Targets {
  if (!isBilled || usage.hasRoom()) return targets;
  const [first, ...others] = targets.filter(({ model: { free } }) => free);
  return first ? [first, ...others] : raise(usageBacklog());
}

/** Only the account that keeps the response which a call goes on from can answer it. */
async function keeperFirst(
  owners: ResponseOwners,
  key: ResolvedKey,
  previousResponseId: string,
  targets: Targets,
): Promise<Targets> {
  const keeper = await makerOfPrevious(owners, key, previousResponseId);
  return [targets.find(({ connector }) => connector.id === keeper) ?? targets[0]];
}

/** Finds out where a stored response is, and whether the caller may have it. */
export async function planStored(
  deps: PlanDeps,
  key: ResolvedKey,
  { method, responseId, rest }: StoredResponse,
  table: RoutingTable,
): Promise<StoredPlan> {
  return {
    kind: 'stored response',
    operation: STORED_RESPONSE,
    connectors: await connectorsOfResponse(deps.owners, key, responseId, table),
    method,
    path: `${STORED_RESPONSE.path}/${encodeURIComponent(responseId)}${rest}`,
    hideUsage: false,
  };
}
