import type { IncomingHttpHeaders } from 'node:http';
import { parseWorkloadType, type RoutingProfile, workloadTypeKey } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import { canAnswer, type ResolvedKey, type RoutingTable, servesRoute } from '@weighbridge/state';
import type { UsageLog } from '@weighbridge/usage/recording';
import { usageBacklog } from '../attempt/attemptMoney.ts';
import type { ObjectAccess } from '../attempt/plan.ts';
import type { ObjectOwners } from '../control/objectOwners.ts';
import type { Target, Targets } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { isAllowed } from '../routing/allowedModels.ts';
import { storingFirst, targetAt, targetsForModels } from '../routing/modelTargets.ts';
import { drawOf, pinKeyOf, routePinKey } from '../routing/pinKey.ts';
import { type ProfileDeps, targetsForProfile } from '../routing/profileTargets.ts';
import type { PinDecision, SessionPins } from '../routing/sessionPins.ts';
import { operationInstead } from '../translation/requestTranslation.ts';
import { admitModel } from './admitModel.ts';
import { accessToObjects } from './namedObjects.ts';

export interface ChosenTargets extends PinDecision {
  readonly isPinned: boolean;
  /** Undefined if the request names no stored object. */
  readonly objects: ObjectAccess | undefined;
}

export interface ChoiceDeps extends Pick<ProfileDeps, 'strata'> {
  readonly usage: Pick<UsageLog, 'hasRoom'>;
  readonly owners: ObjectOwners;
  readonly pins: SessionPins;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** A request, and what its model's name stands for. */
interface Wanted {
  readonly deps: ChoiceDeps;
  readonly sender: { readonly key: ResolvedKey; readonly headers: IncomingHttpHeaders };
  readonly generation: GenerationRequest;
  /** The id of a model, or `router/<profile>`. */
  readonly model: string;
  readonly profile: RoutingProfile | undefined;
  readonly table: RoutingTable;
}

/** The targets of a request. A request of a session goes to the target of the session's first request. */
export function chooseTargets(wanted: Wanted): ChosenTargets | Promise<ChosenTargets> {
  const { deps, sender, generation, model, profile } = wanted;
  const { key, headers } = sender;
  const pinKey = pinKeyOf({ principalId: key.principalId, headers, model, generation, profile });
  if (pinKey !== undefined || generation.mayNameObjects) return chooseByHistory(wanted, pinKey);
  const targets = recordable(wanted, allTargets(wanted, deps.random));
  return { targets, savePin: () => {}, isPinned: false, objects: undefined };
}

/** The targets of a request that belongs to a session, or may name what a vendor stores. */
async function chooseByHistory(wanted: Wanted, pinKey: string | undefined): Promise<ChosenTargets> {
  const { targets, savePin, isPinned } =
    pinKey === undefined
      ? { targets: allTargets(wanted, wanted.deps.random), savePin: () => {}, isPinned: false }
      : await chooseByPin(wanted, pinKey);
  const usable = recordable(wanted, targets);
  if (!wanted.generation.mayNameObjects) return { targets: usable, savePin, isPinned, objects: undefined };
  const { deps, sender, generation } = wanted;
  const objects = await accessToObjects(deps.owners, sender.key, generation);
  return { targets: havingObjects(generation, objects, usable), savePin, isPinned, objects };
}

async function chooseByPin(
  wanted: Wanted,
  pinKey: string,
): Promise<PinDecision & { readonly isPinned: boolean }> {
  const { deps, sender, generation, table } = wanted;
  const { operation } = generation;
  const { key } = sender;
  const all = allTargets(wanted, drawOf(pinKey));
  const passes = ({ connector }: Target) => servesRoute(connector, operation.route);
  const { targets, savePin } = await deps.pins.decide({
    key: pinKey,
    routeKey: routePinKey(pinKey, operation.route),
    targets: all,
    // Whether or not the profile still names it: edits of a profile apply to new sessions.
    find: (modelId, connectorId) =>
      isAllowed(key, modelId) ? targetAt(modelId, connectorId, table) : undefined,
    // Another account of the model may take what would have to be translated for this one.
    serves: (target) =>
      passes(target) ||
      (canAnswer(target.connector, operation) &&
        !all.some((other) => other.model.id === target.model.id && passes(other))),
  });
  return { targets, savePin, isPinned: true };
}

/** The targets of the model that the request names, or of its profile. */
function allTargets(
  { deps, sender, generation, model: name, profile, table }: Wanted,
  random: () => number,
): Targets {
  const { key, headers } = sender;
  const { operation, model: asked } = generation;
  if (!profile) {
    const model = admitModel(key, { model: name, asked, operation }, table);
    return targetsForModels([model], operation, table, random);
  }
  const workloadType = workloadTypeKey(parseWorkloadType(headers));
  const { strata } = deps;
  const ranked = targetsForProfile({ random, strata }, profile, { key, operation, workloadType }, table);
  return generation.isStored ? storingFirst(ranked, operation) : ranked;
}

/** While usage can't be recorded, only free models are used. */
function recordable({ deps, generation }: Wanted, targets: Targets): Targets {
  const { operation, namesSeveralModels } = generation;
  if (!operation.isBilled || deps.usage.hasRoom()) return targets;
  const [first, ...others] = targets.filter(({ model: { free } }) => free && !namesSeveralModels);
  return first ? [first, ...others] : raise(usageBacklog());
}

/** Only the account that has an object can use it; if that is unknown of a previous response, the first target is asked. */
function havingObjects(
  generation: GenerationRequest,
  objects: ObjectAccess | undefined,
  targets: Targets,
): Targets {
  const connectorId = objects?.connectorId;
  if (connectorId === undefined && generation.previousResponseId === undefined) return targets;
  const has = targets.find(({ connector }) => connector.id === connectorId);
  // Of another dialect, no vendor has it.
  const takesIt = targets.find(({ connector }) => !operationInstead(connector, generation.operation));
  return [has ?? takesIt ?? targets[0]];
}
