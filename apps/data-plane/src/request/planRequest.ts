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
import { type GenerationRequest, readGenerationRequest, upstreamBody } from '../formats/generationRequest.ts';
import { assertAllowedInHardMode } from '../formats/hardMode.ts';
import { type Operation, STORED_RESPONSE } from '../formats/operation.ts';
import type { RequestBody } from '../formats/requestBody.ts';
import type { PreparedRequest } from '../observe/attempt.ts';
import type { UsageLog } from '../record/usageLog.ts';
import { targetAt, targetsForModels } from '../routing/modelTargets.ts';
import { drawOf, pinKeyOf } from '../routing/pinKey.ts';
import { findProfile, type ProfileDeps, targetsForProfile } from '../routing/profileTargets.ts';
import type { PinDecision, SessionPins } from '../routing/sessionPins.ts';
import { admitModel, assertAllowed } from './admitModel.ts';
import { connectorsOfResponse, ownerOfPrevious } from './storedResponses.ts';

export interface PlanDeps extends Pick<ProfileDeps, 'strata'> {
  readonly usage: Pick<UsageLog, 'hasRoom'>;
  readonly budget: Pick<LeaseBook, 'headroom'>;
  readonly owners: ResponseOwners;
  readonly pins: SessionPins;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** A request for a model to generate a response. */
export interface Generation {
  readonly kind: 'generation';
  readonly operation: Operation;
  readonly body: RequestBody;
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
  const call = readGenerationRequest(operation, body);
  const profile = profileOf(sender.key, call, table);
  const chosen = choose(deps, sender, call, profile, table);
  return chosen instanceof Promise
    ? chosen.then((decided) => planOf(deps, sender.key, call, profile, decided))
    : planOf(deps, sender.key, call, profile, chosen);
}

function planOf(
  deps: PlanDeps,
  key: ResolvedKey,
  call: GenerationRequest,
  profile: RoutingProfile | undefined,
  { targets, onServed, isPinned }: Chosen,
): GenerationPlan {
  const { operation } = call;
  const isHard = ({ isHard }: ResolvedKey, { model }: Target) => isHard && operation.isBilled && !model.free;
  if (targets.some((target) => isHard(key, target))) assertAllowedInHardMode(operation, call.body.toBuffer());
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
        if (isHard(current, target)) assertAllowedInHardMode(operation, call.body.toBuffer());
      }
      return isHard(current, target)
        ? limitOutput(deps.budget, current, call, target).then((limited) => prepared(target, limited))
        : prepared(target, call);
    },
    onServed,
    hideUsage: operation.needsIncludeUsage && call.stream && !call.wantsUsage,
  };
}

function prepared({ model, connector }: Target, call: GenerationRequest): PreparedRequest {
  const body = upstreamBody(call, upstreamNameAt(model, connector));
  return { connector, body, modelRequest: { model, connector, call } };
}

/** The profile that a request names; undefined where it names a model. */
function profileOf(
  key: ResolvedKey,
  { model }: GenerationRequest,
  table: RoutingTable,
): RoutingProfile | undefined {
  const name = profileNameOf(model);
  return name === undefined ? undefined : findProfile(name, key, table);
}

/** Chooses the targets. A request of a session goes to the target of the session's first request. */
function choose(
  deps: PlanDeps,
  sender: Sender,
  call: GenerationRequest,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
): Chosen | Promise<Chosen> {
  const { key, headers } = sender;
  const pinKey = pinKeyOf({ principalId: key.principalId, headers, call });
  if (pinKey !== undefined || call.previousResponseId !== undefined) {
    return lookUp(deps, sender, call, profile, table, pinKey);
  }
  const targets = recordable(deps, call.operation, targetsOf(deps, sender, call, profile, table));
  return { targets, onServed: () => {}, isPinned: false };
}

/** Chooses the targets of a request that belongs to a session or continues a stored response. */
async function lookUp(
  deps: PlanDeps,
  sender: Sender,
  call: GenerationRequest,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
  pinKey: string | undefined,
): Promise<Chosen> {
  const { targets, onServed, isPinned } =
    pinKey === undefined
      ? { targets: targetsOf(deps, sender, call, profile, table), onServed: () => {}, isPinned: false }
      : await decideByPin(deps, sender, call, profile, table, pinKey);
  const usable = recordable(deps, call.operation, targets);
  const { previousResponseId } = call;
  if (previousResponseId === undefined) return { targets: usable, onServed, isPinned };
  return {
    targets: await ownerOnly(deps.owners, sender.key, previousResponseId, usable),
    onServed,
    isPinned,
  };
}

interface Chosen extends PinDecision {
  readonly isPinned: boolean;
}

async function decideByPin(
  deps: PlanDeps,
  sender: Sender,
  call: GenerationRequest,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
  pinKey: string,
): Promise<Chosen> {
  const { route } = call.operation;
  const { policies } = sender.key;
  const { targets, onServed } = await deps.pins.decide({
    key: pinKey,
    targets: targetsOf({ ...deps, random: drawOf(pinKey) }, sender, call, profile, table),
    // Whether or not the profile still names it: edits of a profile apply to new sessions.
    find: (modelId, connectorId) =>
      policies.every((policy) => policy.allows(modelId))
        ? targetAt(modelId, connectorId, route, table)
        : undefined,
  });
  return { targets, onServed, isPinned: true };
}

/** The targets of the model that a request names, or of its profile. */
function targetsOf(
  { random, strata }: Pick<PlanDeps, 'random' | 'strata'>,
  { key, headers }: Sender,
  { operation: { route }, model }: GenerationRequest,
  profile: RoutingProfile | undefined,
  table: RoutingTable,
): Targets {
  if (!profile) return targetsForModels([admitModel(key, model, table)], route, table, random);
  const workloadType = workloadTypeKey(parseWorkloadType(headers));
  return targetsForProfile({ random, strata }, profile, { key, route, workloadType }, table);
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
