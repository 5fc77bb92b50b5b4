import type { Route } from '@weighbridge/contracts';
import {
  type AnswerPlan,
  type Asked,
  type Format,
  type Loss,
  type LossPolicy,
  OWNERS,
  type ParsedRequest,
  parseRequest,
  type ResponseStorage,
  type SealScope,
  TooManyItems,
  translateRequest,
} from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { type RoutableConnector, servesRoute, translatedRoute } from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import { readGeminiRequest } from '../formats/geminiRequest.ts';
import { type GenerationRequest, readGenerationRequest, setLimits } from '../formats/generationRequest.ts';
import {
  CHAT_COMPLETIONS,
  CONVERSE,
  COUNT_CONTENT,
  COUNT_TOKENS,
  GENERATE_CONTENT,
  INPUT_TOKENS,
  MESSAGES,
  type Operation,
  RESPONSES,
} from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { quirksOf } from './modelQuirks.ts';
import { notTranslatable, tooManyParts } from './notTranslatable.ts';

const TRANSLATED: readonly Operation[] = [MESSAGES, GENERATE_CONTENT, CHAT_COMPLETIONS, RESPONSES, CONVERSE];
const BY_ROUTE: ReadonlyMap<Route, Operation> = new Map(TRANSLATED.map((one) => [one.route, one]));
/** Chat completions have no counter. */
const COUNTERS: ReadonlyMap<Route, Operation> = new Map(
  [COUNT_TOKENS, COUNT_CONTENT, INPUT_TOKENS].map((one) => [one.route, one]),
);
/** Others serve responses without their counter. */
const COUNTS_RESPONSES = 'openai';

/** More take longer to translate than other requests should wait. */
const MAX_PARTS = 20_000;
/** Parsed, a value takes some hundred bytes, however short it is written. */
const MAX_VALUES = 250_000;
/** Deeper than any setting or message is; schemas and arguments pass as they are written. */
const MAX_DEPTH = 128;
/** A body that is translated is held as text too, and as what is read of it. */
const TIMES_HELD = 2;

/** An attempt whose vendor has another dialect than the caller. */
export interface AttemptTranslation {
  /** What the vendor is asked for. */
  readonly operation: Operation;
  /** What of the caller's request was changed or dropped. */
  readonly losses: readonly Loss[];
  readonly answer: AnswerPlan;
  readonly scope: SealScope;
  readonly account: string;
  /** As the caller named it. */
  readonly model: string;
  /** The caller's own field that limits the output, whatever the vendor's is. */
  readonly limit: { readonly field: string; readonly isSet: boolean };
  /** This service stores the answer, since the vendor does not. */
  readonly isStored: boolean;
  /** The response in this service's store that the caller continues, if any. */
  readonly previousId: string | undefined;
}

export interface TranslatedRequest {
  /** The vendor's request, read as if a client had sent it. */
  readonly generation: GenerationRequest;
  readonly translation: AttemptTranslation;
}

/** The operation that a connector is asked for in place of one that it does not serve; undefined if it serves it. */
export function operationInstead(connector: RoutableConnector, operation: Operation): Operation | undefined {
  if (servesRoute(connector, operation.route)) return undefined;
  const route = operation.isTranslated ? translatedRoute(connector) : undefined;
  // A session may be pinned to a connector whose routes have changed since.
  if (route === undefined) return undefined;
  if (!operation.isCounter) return BY_ROUTE.get(route);
  return route === INPUT_TOKENS.route && connector.provider !== COUNTS_RESPONSES
    ? undefined
    : COUNTERS.get(route);
}

/** What the request asks for is a count of tokens that the connector's vendor can't give. */
export function isUncounted(connector: RoutableConnector, operation: Operation): boolean {
  // InvokeModel counts nothing.
  if (operation.isCounter && connector.identity.case === 'aws') return true;
  if (!operation.isCounter || servesRoute(connector, operation.route)) return false;
  return operationInstead(connector, operation) === undefined;
}

export interface TranslationTerms {
  readonly policy: LossPolicy;
  /** Vendors are asked to cache the prompt, unless the request says itself what to cache. */
  readonly cachesPrompt?: boolean;
  readonly storage?: ResponseStorage;
  readonly previousId?: AttemptTranslation['previousId'];
  /** What the request holds. */
  readonly memory: Pick<HeldMemory, 'takeBody'>;
}

/** The translations of one request: it is read once, and written for each attempt at another dialect. */
export class RequestTranslation {
  readonly #generation: GenerationRequest;
  readonly #scope: SealScope;
  readonly #policy: LossPolicy;
  readonly #cachesPrompt: boolean;
  readonly #memory: Pick<HeldMemory, 'takeBody'>;
  readonly #storage: ResponseStorage;
  readonly #previousId: AttemptTranslation['previousId'];
  #parsed: ParsedRequest | undefined;

  constructor(
    generation: GenerationRequest,
    scope: SealScope,
    { policy, cachesPrompt = false, memory, storage = 'nowhere', previousId }: TranslationTerms,
  ) {
    this.#storage = storage;
    this.#previousId = previousId;
    this.#generation = generation;
    this.#scope = scope;
    this.#policy = policy;
    this.#cachesPrompt = cachesPrompt;
    this.#memory = memory;
  }

  /** `name`: the vendor's name of the model. Throws a 400 that names what has no counterpart. */
  translate(target: Target, usual: Operation, name: string): TranslatedRequest {
    const { model, connector } = target;
    const scope = this.#scope;
    const parsed = this.#parse();
    const operation = stopsByChat(parsed, target, usual) ? CHAT_COMPLETIONS : usual;
    const counts = operation.isCounter ?? false;
    // A count loses nothing that its caller would miss.
    const policy = counts ? 'lenient' : this.#policy;
    const account = connector.id;
    const format = operation.targetFormat ?? formatOf(operation);
    const quirks = quirksOf(model, format);
    const asked = { format, owner: OWNERS[format], account, model: name, quirks };
    const cachesPrompt = this.#cachesPrompt;
    const translated = translateRequest(parsed, { target: asked, scope, policy, counts, cachesPrompt });
    if (translated.kind === 'refused') throw notTranslatable(model.id, translated.losses, policy);
    const { answer, losses } = translated;
    this.#take(translated.body.length);
    const body = new RequestBody([Buffer.from(translated.body)]);
    return {
      generation: readTranslated(operation, body, name, this.#generation.stream),
      translation: {
        operation,
        losses,
        answer,
        scope,
        account,
        model: this.#generation.model,
        limit: callersLimit(this.#generation),
        isStored: this.#storage === 'here',
        previousId: this.#previousId,
      },
    };
  }

  #parse(): ParsedRequest {
    if (this.#parsed) return this.#parsed;
    const { operation, body, stream } = this.#generation;
    this.#take(body.length);
    const parsed = parsedOnce(formatOf(operation), body.toBuffer(), {
      stream: operation.dialect === 'gemini' ? stream : undefined,
      counts: operation.isCounter ?? false,
      storage: this.#storage,
    });
    if (!parsed) throw new AppError('invalid_request', 'malformed_json', 'The body is not a JSON object.');
    this.#parsed = parsed;
    return parsed;
  }

  /** Counts what a body takes once more, as text and as what is read of it. Throws a 503 if it is not free. */
  #take(bytes: number): void {
    this.#memory.takeBody(TIMES_HELD * bytes, (TIMES_HELD + 1) * bytes, this.#scope.principal);
  }
}

/** Responses have no stop sequences; where the model takes them by chat completions, it is asked by those. */
function stopsByChat({ request }: ParsedRequest, { model, connector }: Target, usual: Operation): boolean {
  const stops = request.sampling.stop?.value.length ?? 0;
  return (
    usual === RESPONSES &&
    stops > 0 &&
    stops <= quirksOf(model, 'chat').maxStops &&
    servesRoute(connector, CHAT_COMPLETIONS.route)
  );
}

function callersLimit(generation: GenerationRequest): AttemptTranslation['limit'] {
  const set = setLimits(generation);
  const fields = set.length > 0 ? set : (generation.operation.outputLimits ?? []).slice(-1);
  return { field: fields.join(' and '), isSet: set.length > 0 };
}

function parsedOnce(format: Format, bytes: Buffer, asked: Asked): ParsedRequest | undefined {
  try {
    return parseRequest(format, bytes, {
      ...asked,
      maxItems: MAX_PARTS,
      maxValues: MAX_VALUES,
      maxDepth: MAX_DEPTH,
    });
  } catch (error) {
    throw error instanceof TooManyItems ? tooManyParts(MAX_PARTS, MAX_VALUES, MAX_DEPTH) : error;
  }
}

function readTranslated(
  operation: Operation,
  body: RequestBody,
  model: string,
  stream: boolean,
): GenerationRequest {
  return operation.dialect === 'gemini'
    ? readGeminiRequest({ operation, model, stream, isArray: false }, body)
    : readGenerationRequest(operation, body);
}

function formatOf({ format, path }: Operation): Format {
  if (format) return format;
  throw new Error(`translation: ${path} has no format`);
}
