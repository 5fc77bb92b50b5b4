import type { IncomingHttpHeaders } from 'node:http';
import type { LeaseBook, RateLimitedPolicy } from '@weighbridge/budget';
import type { ResponseStorage } from '@weighbridge/dialects';
import { parseAttribution, type RoutingProfile, type SaidElsewhere } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  type CountedAttempt,
  limitRatesOf,
  type Payer,
  payerOf,
  type ResolvedKey,
  type RoutableConnector,
  type RoutableModel,
  type RoutingTable,
  upstreamNameAt,
} from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import { geminiPath } from '../formats/geminiRequest.ts';
import { type GenerationRequest, upstreamBody } from '../formats/generationRequest.ts';
import { type HardTerms, hardTerms } from '../formats/hardMode.ts';
import { RESPONSES } from '../formats/operation.ts';
import { inReusedContainers } from '../formats/serverTools.ts';
import {
  assertAllowed,
  assertNamedModelsAllowed,
  namedTargets,
  otherModelsFor,
} from '../routing/allowedModels.ts';
import { inTranslation } from '../translation/notTranslatable.ts';
import {
  type AttemptTranslation,
  operationInstead,
  RequestTranslation,
  type TranslatedRequest,
} from '../translation/requestTranslation.ts';
import {
  MAX_CONVERSATION_BYTES,
  type ResponseStore,
  type StoreMemory,
} from '../translation/responseStore.ts';
import { limitOutput } from './limitOutput.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import { reportsUsageIfAsked } from './streamUsage.ts';

export interface PreparationDeps {
  readonly budget: Pick<LeaseBook, 'headroom'>;
  /** Of the envelopes in which callers keep what only a vendor understands. */
  readonly envelopeKey: Buffer;
  /** Of responses that their vendors do not store; undefined if there is none. */
  readonly responses: ResponseStore | undefined;
}

const NO_MODELS: readonly string[] = [];
const NO_RATES: readonly RateLimitedPolicy[] = [];

/** An admitted request. */
export interface AdmittedRequest {
  /** That it was admitted for. */
  readonly key: ResolvedKey;
  /** As the client sent it. */
  readonly generation: GenerationRequest;
  /** What the requested name stands for: the id of a model, or `router/<profile>`. */
  readonly model: string;
  /** The name that the vendor of that model gets, if the request gave it another one of its names. */
  readonly sentName: string | undefined;
  /** Undefined if the request names a model. */
  readonly profile: RoutingProfile | undefined;
  /** The response of this service's own store whose conversation the request says. */
  readonly continued: string | undefined;
  readonly table: RoutingTable;
  /** What its headers say of whom it is for. */
  readonly headers: IncomingHttpHeaders;
  readonly saidElsewhere: SaidElsewhere | undefined;
  /** What the request holds. */
  readonly memory: StoreMemory;
}

/**
 * Decides what a request sends, for each of its targets: the account may know the model by another name, its vendor may speak
 * another dialect, and a hard budget limits the output of each model differently.
 */
export class Preparation {
  readonly #deps: PreparationDeps;
  readonly #request: AdmittedRequest;
  /** What a hard budget found in the body, for the key that it was checked for. */
  #hard: { readonly key: ResolvedKey; readonly terms: HardTerms } | undefined;
  /** The models that the request's tools name, as they are known at an account. */
  #named:
    | { readonly key: ResolvedKey; readonly connector: RoutableConnector; readonly models: readonly string[] }
    | undefined;
  /** Set once a target speaks another dialect. */
  #translation: RequestTranslation | undefined;

  constructor(deps: PreparationDeps, request: AdmittedRequest) {
    this.#deps = deps;
    this.#request = request;
  }

  /** Throws a 400 if the maximum cost at a target can't be known, and has to be. */
  assertBounded(targets: readonly Target[]): void {
    const { key, generation } = this.#request;
    const isHard = (target: Target) =>
      this.#isHard(key, target) && !operationInstead(target.connector, generation.operation);
    if (targets.some(isHard)) this.#hardTerms(key);
  }

  /** Throws or rejects if the key may not use the target, or it can't get the request; may wait for headroom in the budgets. */
  forTarget(target: Target, key: ResolvedKey): PreparedRequest | Promise<PreparedRequest> {
    const { generation: asked, table } = this.#request;
    const isHard = this.#isHard(key, target);
    if (key !== this.#request.key) {
      // The key was refreshed after the request was planned.
      assertAllowed(key, target.model);
      if (key.restrictsModels) assertNamedModelsAllowed(key, asked, [target], table);
    }
    const translated = this.#translated(target);
    const generation = translated?.generation ?? asked;
    if (!isHard) return this.#prepared(key, target, generation, translated?.translation);
    const terms = translated ? this.#translatedTerms(generation, key, target) : this.#hardTerms(key);
    // Reasoning has a share of the limit: lowering it later would leave no room for the answer.
    const hasDefaultLimit = translated?.translation.limit.isSet === false && !generation.asksToReason;
    const budgets = this.#budgetsFor(key, target);
    return limitOutput(this.#deps.budget, budgets, generation, terms, target, hasDefaultLimit).then(
      (limited) => this.#prepared(key, target, limited, translated?.translation),
    );
  }

  /** The rates of further limits that an attempt at the target counts in. Throws a 400 if one needs attribution that the request lacks. */
  limitRatesFor(target: Target, key: ResolvedKey): readonly RateLimitedPolicy[] {
    return key.limitRates.length === 0 || !this.#request.generation.operation.isBilled
      ? NO_RATES
      : limitRatesOf(key, this.#countedAttempt(key, target));
  }

  /** Those that an attempt at the target reserves from. */
  #budgetsFor(key: ResolvedKey, target: Target): Payer['budgets'] {
    return key.limits.length === 0 ? key.budgets : payerOf(key, this.#countedAttempt(key, target)).budgets;
  }

  #countedAttempt(key: ResolvedKey, { model, connector }: Target): CountedAttempt {
    const { generation, headers, saidElsewhere } = this.#request;
    return {
      model: generation.namesSeveralModels ? undefined : model.id,
      others: this.#toolModels(key, connector),
      attribution: parseAttribution(headers, key.attribution, saidElsewhere),
    };
  }

  /** The models that its tools name, as the caller sent it: a tool of the vendor may be of a dearer model than the one that answers. */
  #toolModels(key: ResolvedKey, connector: RoutableConnector): readonly string[] {
    const { generation, table } = this.#request;
    if (generation.namesSeveralModels || !generation.operation.isBilled) return NO_MODELS;
    if (this.#named?.key !== key || this.#named.connector !== connector) {
      this.#named = { key, connector, models: otherModelsFor(key, generation, connector, table) };
    }
    return this.#named.models;
  }

  /** Undefined if the target takes the request as it is. Throws a 400 if it can't get it at all. */
  #translated(target: Target): TranslatedRequest | undefined {
    const { model, connector } = target;
    const { key, generation, profile, memory, continued } = this.#request;
    const operation = operationInstead(connector, generation.operation);
    if (!operation) return undefined;
    const scope = { key: this.#deps.envelopeKey, principal: key.principalId };
    const isStrict = key.translatesStrictly || profile?.translatesStrictly === true;
    this.#translation ??= new RequestTranslation(generation, scope, {
      policy: isStrict ? 'strict' : 'lenient',
      cachesPrompt: key.cachesPrompts || profile?.cachesPrompts === true,
      memory,
      storage: this.#storage(),
      previousId: continued,
    });
    return this.#translation.translate(target, operation, upstreamNameAt(model, connector));
  }

  /** Of a response that its vendor does not store: whether this service does, unless the caller forbids it. */
  #storage(): ResponseStorage {
    const { operation, isStored, body } = this.#request.generation;
    if (operation !== RESPONSES || !isStored || !this.#deps.responses) return 'nowhere';
    return body.length > MAX_CONVERSATION_BYTES ? 'too_large' : 'here';
  }

  #isHard({ isHard }: ResolvedKey, { model }: Target): boolean {
    const { operation, namesSeveralModels } = this.#request.generation;
    // Instead of a model that is free, another one may answer.
    return isHard && operation.isBilled && (!model.free || namesSeveralModels);
  }

  #prepared(
    key: ResolvedKey,
    { model, connector }: Target,
    generation: GenerationRequest,
    translation: AttemptTranslation | undefined,
  ): PreparedRequest {
    const name = translation ? upstreamNameAt(model, connector) : this.#upstreamName(model, connector);
    const body = upstreamBody(generation, name, reportsUsageIfAsked(connector));
    const modelRequest =
      key.limits.length === 0
        ? { model, connector, generation }
        : { model, connector, generation, toolModels: this.#toolModels(key, connector) };
    if (generation.operation.dialect === 'gemini') {
      const nativePath = geminiPath(generation, name);
      return { connector, body, nativePath, modelRequest, translation };
    }
    if (!generation.namesSeveralModels) return { connector, body, modelRequest, translation };
    const alternatives = namedTargets(generation, connector, this.#request.table);
    return { connector, body, modelRequest: { model, connector, generation, alternatives }, translation };
  }

  /** The name that the vendor gets: the account's own, else the one in the request if it is the vendor's, else the model's. */
  #upstreamName(model: RoutableModel, connector: RoutableConnector): string {
    const { sentName, model: requested } = this.#request;
    const name = upstreamNameAt(model, connector);
    return sentName !== undefined && model.id === requested && name === model.upstreamName ? sentName : name;
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
      const { generation } = this.#request;
      const { isBackground, output } = generation;
      if (isBackground && output?.maxTokens === undefined) throw unboundedBackground();
      this.#hard = { key, terms: termsOf(generation, key) };
    }
    return this.#hard.terms;
  }
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
