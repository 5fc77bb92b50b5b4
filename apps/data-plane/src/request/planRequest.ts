import type { IncomingHttpHeaders } from 'node:http';
import { profileNameOf, ROUTER_PREFIX, type RoutingProfile, type SaidElsewhere } from '@weighbridge/domain';
import type { ResolvedKey, RoutingTable } from '@weighbridge/state';
import type { GenerationPlan } from '../attempt/plan.ts';
import { Preparation, type PreparationDeps } from '../attempt/preparation.ts';
import type { Targets } from '../control/target.ts';
import { type GeminiTarget, readGeminiRequest } from '../formats/geminiRequest.ts';
import { type GenerationRequest, readGenerationRequest } from '../formats/generationRequest.ts';
import type { Operation } from '../formats/operation.ts';
import type { RequestBody } from '../formats/requestBody.ts';
import { assertNamedModelsAllowed } from '../routing/allowedModels.ts';
import { findProfile, profileWithId } from '../routing/profileTargets.ts';
import { isUncounted } from '../translation/requestTranslation.ts';
import { isOwnResponse, type StoreMemory } from '../translation/responseStore.ts';
import { type ChoiceDeps, type ChosenTargets, chooseTargets } from './chooseTargets.ts';
import { continueResponse } from './continueResponse.ts';
import { resolveRequested } from './resolveModel.ts';

export interface PlanDeps extends ChoiceDeps, PreparationDeps {}

/** A request for a model to generate a response. */
export interface GenerationAction {
  readonly kind: 'generation';
  readonly operation: Operation;
  readonly body: RequestBody;
  /** Of the `gemini` dialect: what the path says. */
  readonly gemini?: GeminiTarget;
}

/** A request for a response that a vendor stored. */
export interface StoredResponseAction {
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
  /** Learns which model it names, also if it is refused. */
  readonly observed: { modelRequested: string; readonly saidElsewhere: SaidElsewhere | undefined };
  /** What the request holds. */
  readonly memory: StoreMemory;
}

/** What a request asks for, and in which form. */
interface ReadRequest {
  readonly generation: GenerationRequest;
  readonly streamsArray: boolean;
  /** The response of this service's own store whose conversation the request says. */
  readonly continued: string | undefined;
}

/** Admits a request and chooses its targets; a promise only if a pin or an owner has to be looked up. */
export function planGeneration(
  deps: PlanDeps,
  sender: Sender,
  { operation, body, gemini }: GenerationAction,
  table: RoutingTable,
): GenerationPlan | Promise<GenerationPlan> {
  const generation = gemini ? readGeminiRequest(gemini, body) : readGenerationRequest(operation, body);
  sender.observed.modelRequested = generation.model;
  const { previousResponseId: previous } = generation;
  if (previous !== undefined && deps.responses && isOwnResponse(previous)) {
    return continueResponse(deps.responses, sender, generation).then((whole) =>
      planRead(deps, sender, { generation: whole, streamsArray: false, continued: previous }, table),
    );
  }
  const streamsArray = gemini?.isArray ?? false;
  return planRead(deps, sender, { generation, streamsArray, continued: undefined }, table);
}

function planRead(
  deps: PlanDeps,
  sender: Sender,
  request: ReadRequest,
  table: RoutingTable,
): GenerationPlan | Promise<GenerationPlan> {
  const { generation } = request;
  const named = whatIsNamed(generation, sender.key, table);
  const { model, profile } = named;
  const chosen = chooseTargets({ deps, sender, generation, model, profile, table });
  return chosen instanceof Promise
    ? chosen.then((targets) => planFor(deps, sender, request, named, targets, table))
    : planFor(deps, sender, request, named, chosen, table);
}

/** What a request names. */
interface Named {
  /** The id of a model, or `router/<profile>`. */
  readonly model: string;
  /** The name that the vendor of that model gets, if the request gave it another one of its names. */
  readonly sentName: string | undefined;
  /** Undefined if the request names a model. */
  readonly profile: RoutingProfile | undefined;
}

function whatIsNamed({ model: asked }: GenerationRequest, key: ResolvedKey, table: RoutingTable): Named {
  if (key.routesBy !== undefined) {
    const profile = profileWithId(key.routesBy, table);
    return { model: `${ROUTER_PREFIX}${profile.name}`, sentName: undefined, profile };
  }
  // Most requests name a model by its id: that takes no more than a look-up.
  const resolved = table.models.has(asked) ? undefined : resolveRequested(asked, key, table);
  const model = resolved?.target ?? asked;
  const profileName = resolved && profileNameOf(model);
  const profile = profileName === undefined ? undefined : findProfile(profileName, key, table);
  return { model, sentName: resolved?.sentName, profile };
}

function planFor(
  deps: PlanDeps,
  { key, headers, memory, observed }: Sender,
  { generation: read, streamsArray, continued }: ReadRequest,
  { model, sentName, profile }: Named,
  { targets: chosen, savePin, isPinned, objects }: ChosenTargets,
  table: RoutingTable,
): GenerationPlan {
  const containerGb = objects?.containerGb ?? 0;
  const generation = containerGb > 0 ? { ...read, containerGb } : read;
  const { operation } = generation;
  const isEstimated = isUncounted(chosen[0].connector, operation);
  const targets = operation.isCounter && !isEstimated ? countingTargets(chosen, operation) : chosen;
  if (key.restrictsModels) assertNamedModelsAllowed(key, generation, targets, table);
  const preparation = new Preparation(deps, {
    key,
    generation,
    model,
    sentName,
    profile,
    continued,
    table,
    headers,
    saidElsewhere: observed.saidElsewhere,
    memory,
  });
  preparation.assertBounded(targets);
  return {
    kind: 'generation',
    operation,
    generation,
    model,
    sentName,
    targets,
    profile,
    isPinned,
    isEstimated,
    objects,
    method: 'POST',
    path: operation.path,
    streamsArray,
    preparation,
    savePin,
    hideUsage: operation.needsIncludeUsage && generation.stream && !generation.wantsUsage,
  };
}

/** Those whose vendors count, of which the first is one. */
function countingTargets([first, ...others]: Targets, operation: Operation): Targets {
  return [first, ...others.filter(({ connector }) => !isUncounted(connector, operation))];
}
