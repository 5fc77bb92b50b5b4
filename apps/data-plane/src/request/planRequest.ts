import type { IncomingHttpHeaders } from 'node:http';
import type { LeaseBook } from '@weighbridge/budget';
import type { ResponseStorage } from '@weighbridge/dialects';
import { profileNameOf, ROUTER_PREFIX, type RoutingProfile } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  type ResolvedKey,
  type RoutableConnector,
  type RoutableModel,
  type RoutingTable,
  upstreamNameAt,
} from '@weighbridge/state';
import { limitOutput } from '../attempt/limitOutput.ts';
import type { GenerationPlan, PreparedRequest } from '../attempt/plan.ts';
import { reportsUsageIfAsked } from '../attempt/streamUsage.ts';
import type { Target, Targets } from '../control/target.ts';
import { type GeminiTarget, geminiPath, readGeminiRequest } from '../formats/geminiRequest.ts';
import { type GenerationRequest, readGenerationRequest, upstreamBody } from '../formats/generationRequest.ts';
import { type HardTerms, hardTerms } from '../formats/hardMode.ts';
import { type Operation, RESPONSES } from '../formats/operation.ts';
import type { RequestBody } from '../formats/requestBody.ts';
import { inReusedContainers } from '../formats/serverTools.ts';
import { findProfile, profileWithId } from '../routing/profileTargets.ts';
import { inTranslation } from '../translation/notTranslatable.ts';
import {
  type AttemptTranslation,
  isUncounted,
  operationInstead,
  RequestTranslation,
  type TranslatedRequest,
} from '../translation/requestTranslation.ts';
import {
  isOwnResponse,
  MAX_CONVERSATION_BYTES,
  type ResponseStore,
  type StoreMemory,
} from '../translation/responseStore.ts';
import { assertAllowed, assertNamedModelsAllowed, namedTargets } from './admitModel.ts';
import { type ChoiceDeps, type ChosenTargets, chooseTargets } from './chooseTargets.ts';
import { continueResponse } from './continueResponse.ts';
import { resolveRequested } from './resolveModel.ts';

export interface PlanDeps extends ChoiceDeps {
  readonly budget: Pick<LeaseBook, 'headroom'>;
  /** Of the envelopes in which callers keep what only a vendor understands. */
  readonly envelopeKey: Buffer;
  /** Of responses that their vendors do not store; undefined if there is none. */
  readonly responses: ResponseStore | undefined;
}

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
  readonly observed: { modelRequested: string };
  /** What the request holds. */
  readonly memory: StoreMemory;
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
      new GenerationPlanner(deps, sender, whole, false, table, previous).plan(),
    );
  }
  return new GenerationPlanner(deps, sender, generation, gemini?.isArray ?? false, table).plan();
}

class GenerationPlanner {
  readonly #deps: PlanDeps;
  readonly #sender: Sender;
  #generation: GenerationRequest;
  readonly #streamsArray: boolean;
  readonly #table: RoutingTable;
  /** What the requested name stands for: the id of a model, or `router/<profile>`. */
  readonly #model: string;
  /** The name that the vendor of that model gets, if the request gave it another one of its names. */
  readonly #sentName: string | undefined;
  /** Undefined if the request names a model. */
  readonly #profile: RoutingProfile | undefined;
  /** What a hard budget found in the body, for the key that it was checked for. */
  #hard: { readonly key: ResolvedKey; readonly terms: HardTerms } | undefined;
  /** The response of this service's own store whose conversation the request says. */
  readonly #continued: string | undefined;
  /** Set once a target speaks another dialect. */
  #translation: RequestTranslation | undefined;

  constructor(
    deps: PlanDeps,
    sender: Sender,
    generation: GenerationRequest,
    streamsArray: boolean,
    table: RoutingTable,
    continued?: string,
  ) {
    this.#continued = continued;
    this.#deps = deps;
    this.#sender = sender;
    this.#generation = generation;
    this.#streamsArray = streamsArray;
    this.#table = table;
    const { model } = generation;
    if (sender.key.routesBy !== undefined) {
      this.#profile = profileWithId(sender.key.routesBy, table);
      this.#model = `${ROUTER_PREFIX}${this.#profile.name}`;
      return;
    }
    // Most requests name a model by its id: that takes no more than a look-up.
    const resolved = table.models.has(model) ? undefined : resolveRequested(model, sender.key, table);
    this.#model = resolved?.target ?? model;
    this.#sentName = resolved?.sentName;
    const profileName = resolved && profileNameOf(this.#model);
    this.#profile = profileName === undefined ? undefined : findProfile(profileName, sender.key, table);
  }

  plan(): GenerationPlan | Promise<GenerationPlan> {
    const chosen = chooseTargets({
      deps: this.#deps,
      sender: this.#sender,
      generation: this.#generation,
      model: this.#model,
      profile: this.#profile,
      table: this.#table,
    });
    return chosen instanceof Promise
      ? chosen.then((targets) => this.#planFor(targets))
      : this.#planFor(chosen);
  }

  #planFor({ targets: chosen, savePin, isPinned, objects }: ChosenTargets): GenerationPlan {
    const containerGb = objects?.containerGb ?? 0;
    if (containerGb > 0) this.#generation = { ...this.#generation, containerGb };
    const generation = this.#generation;
    const { operation } = generation;
    const isEstimated = isUncounted(chosen[0].connector, operation);
    const targets = operation.isCounter && !isEstimated ? countingTargets(chosen, operation) : chosen;
    const { key } = this.#sender;
    if (key.restrictsModels) assertNamedModelsAllowed(key, generation, targets, this.#table);
    const isHard = (target: Target) =>
      this.#isHard(key, target) && !operationInstead(target.connector, operation);
    if (targets.some(isHard)) this.#hardTerms(key);
    return {
      kind: 'generation',
      operation,
      generation,
      model: this.#model,
      sentName: this.#sentName,
      targets,
      profile: this.#profile,
      isPinned,
      isEstimated,
      objects,
      method: 'POST',
      path: operation.path,
      streamsArray: this.#streamsArray,
      prepare: (target, current) => this.#prepare(target, current),
      savePin,
      hideUsage: operation.needsIncludeUsage && generation.stream && !generation.wantsUsage,
    };
  }

  #prepare(target: Target, key: ResolvedKey): PreparedRequest | Promise<PreparedRequest> {
    const isHard = this.#isHard(key, target);
    if (key !== this.#sender.key) {
      // The key was refreshed after the request was planned.
      assertAllowed(key, target.model);
      if (key.restrictsModels) assertNamedModelsAllowed(key, this.#generation, [target], this.#table);
    }
    const translated = this.#translated(target);
    const generation = translated?.generation ?? this.#generation;
    if (!isHard) return this.#prepared(target, generation, translated?.translation);
    const terms = translated ? this.#translatedTerms(generation, key, target) : this.#hardTerms(key);
    // Reasoning has a share of the limit: lowering it later would leave no room for the answer.
    const hasDefaultLimit = translated?.translation.limit.isSet === false && !generation.asksToReason;
    return limitOutput(this.#deps.budget, key, generation, terms, target, hasDefaultLimit).then((limited) =>
      this.#prepared(target, limited, translated?.translation),
    );
  }

  /** Undefined if the target takes the request as it is. Throws a 400 if it can't get it at all. */
  #translated(target: Target): TranslatedRequest | undefined {
    const { model, connector } = target;
    const operation = operationInstead(connector, this.#generation.operation);
    if (!operation) return undefined;
    const { key } = this.#sender;
    const scope = { key: this.#deps.envelopeKey, principal: key.principalId };
    const isStrict = key.translatesStrictly || this.#profile?.translatesStrictly === true;
    this.#translation ??= new RequestTranslation(this.#generation, scope, {
      policy: isStrict ? 'strict' : 'lenient',
      memory: this.#sender.memory,
      storage: this.#storage(),
      previousId: this.#continued,
    });
    return this.#translation.translate(target, operation, upstreamNameAt(model, connector));
  }

  /** Of a response that its vendor does not store: whether this service does, unless the caller forbids it. */
  #storage(): ResponseStorage {
    const { operation, isStored, body } = this.#generation;
    if (operation !== RESPONSES || !isStored || !this.#deps.responses) return 'nowhere';
    return body.length > MAX_CONVERSATION_BYTES ? 'too_large' : 'here';
  }

  #isHard({ isHard }: ResolvedKey, { model }: Target): boolean {
    const { operation, namesSeveralModels } = this.#generation;
    // Instead of a model that is free, another one may answer.
    return isHard && operation.isBilled && (!model.free || namesSeveralModels);
  }

  #prepared(
    { model, connector }: Target,
    generation: GenerationRequest,
    translation: AttemptTranslation | undefined,
  ): PreparedRequest {
    const name = translation ? upstreamNameAt(model, connector) : this.#upstreamName(model, connector);
    const body = upstreamBody(generation, name, reportsUsageIfAsked(connector));
    if (generation.operation.dialect === 'gemini') {
      const nativePath = geminiPath(generation, name);
      return { connector, body, nativePath, modelRequest: { model, connector, generation }, translation };
    }
    if (!generation.namesSeveralModels)
      return { connector, body, modelRequest: { model, connector, generation }, translation };
    const alternatives = namedTargets(generation, connector, this.#table);
    return { connector, body, modelRequest: { model, connector, generation, alternatives }, translation };
  }

  /** The name that the vendor gets: the account's own, else the one in the request if it is the vendor's, else the model's. */
  #upstreamName(model: RoutableModel, connector: RoutableConnector): string {
    const name = upstreamNameAt(model, connector);
    return this.#sentName !== undefined && model.id === this.#model && name === model.upstreamName
      ? this.#sentName
      : name;
  }

  /** Throws a 400 too, which names a field of the caller's if its own request is refused as well. */
  #translatedTerms(generation: GenerationRequest, key: ResolvedKey, { model }: Target): HardTerms {
    try {
      return termsOf(generation, key);
    } catch (error) {
      this.#hardTerms(key);
      throw inTranslation(error, model.id);
    }
  }

  /** Throws a 400 if the maximum cost of the request can't be known. */
  #hardTerms(key: ResolvedKey): HardTerms {
    if (this.#hard?.key !== key) {
      const { isBackground, output } = this.#generation;
      if (isBackground && output?.maxTokens === undefined) throw unboundedBackground();
      this.#hard = { key, terms: termsOf(this.#generation, key) };
    }
    return this.#hard.terms;
  }
}

/** Those whose vendors count, of which the first is one. */
function countingTargets([first, ...others]: Targets, operation: Operation): Targets {
  return [first, ...others.filter(({ connector }) => !isUncounted(connector, operation))];
}

function termsOf(generation: GenerationRequest, { hardAllowFields }: ResolvedKey): HardTerms {
  const { operation, body } = generation;
  const terms = body.readJoined((bytes) => hardTerms(operation, bytes, hardAllowFields));
  return { ...terms, toolUses: inReusedContainers(terms.toolUses, generation) };
}

/** An output limit that this service sets would cut what no one waits for. */
function unboundedBackground(): AppError {
  const message =
    "A background response needs max_output_tokens under this key's hard budget. Send that field, or remove background.";
  return new AppError('invalid_request', 'max_output_tokens_required', message, {
    param: 'max_output_tokens',
  });
}
