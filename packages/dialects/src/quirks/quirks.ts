import type { TargetFormat } from '../format.ts';
import type { Effort, HostedService, MediaKind } from '../ir/request.ts';

/** What a model at an account can do: data from the catalog, never guessed from a name. */
export interface Quirks {
  /** The efforts that it can be asked for; empty if it does not reason, or can't be told how much. */
  readonly efforts: readonly Effort[];
  /** It takes a number of reasoning tokens; both bounds are valid. */
  readonly budget: { readonly min: number; readonly max: number } | undefined;
  /** It can be left to decide how much it reasons. */
  readonly adaptive: boolean;
  /** Its reasoning can be turned off. */
  readonly canTurnOffReasoning: boolean;
  /** Temperature and top_p. */
  readonly sampling: boolean;
  readonly topK: boolean;
  readonly seed: boolean;
  readonly penalties: boolean;
  /** How many stop sequences it takes. */
  readonly maxStops: number;
  readonly inputs: readonly MediaKind[];
  /** It fetches media from an address. */
  readonly mediaUrls: boolean;
  readonly freeformTools: boolean;
  readonly strictTools: boolean;
  readonly hosted: readonly HostedService[];
  /** `subset`: schemas are reduced to what the vendor takes. */
  readonly schemas: 'json-schema' | 'subset';
  readonly structuredOutput: boolean;
  /** A call may be forced while it reasons. */
  readonly forcesCalls: boolean;
  readonly parallelChoice: boolean;
  readonly minTokens: number;
  /** The most that a request may ask for; undefined if that is not known. */
  readonly maxTokens: number | undefined;
  /** The limit that is set if the request has none; undefined if none is needed. */
  readonly defaultTokens: number | undefined;
  readonly cacheMarks: boolean;
  readonly cacheKey: boolean;
  readonly verbosity: boolean;
  /** Takes the hash of the caller's user. */
  readonly user: boolean;
  /** Instructions within the conversation have their own role. */
  readonly instructionRole: 'developer' | 'system' | undefined;
  /** The member of chat completions that limits the output. */
  readonly tokensMember: 'max_completion_tokens' | 'max_tokens';
  /** The member of an assistant's message in chat completions that takes its reasoning back; undefined if none does. */
  readonly reasoningMember: 'reasoning_content' | 'reasoning' | undefined;
  /** The exact length of the ids of calls; undefined if any will do. */
  readonly callIdLength: number | undefined;
  /** Gemini's models refuse a call in the history without a signature. */
  readonly needsThoughtSignatures: boolean;
}

const ALL_MEDIA = ['image', 'document', 'audio', 'video'] as const;

const COMMON: Quirks = {
  efforts: [],
  budget: undefined,
  adaptive: false,
  canTurnOffReasoning: true,
  sampling: true,
  topK: false,
  seed: false,
  penalties: false,
  maxStops: 4,
  inputs: ['image', 'document'],
  mediaUrls: true,
  freeformTools: false,
  strictTools: false,
  hosted: [],
  schemas: 'json-schema',
  structuredOutput: true,
  forcesCalls: true,
  parallelChoice: true,
  minTokens: 1,
  maxTokens: undefined,
  defaultTokens: undefined,
  cacheMarks: false,
  cacheKey: false,
  verbosity: false,
  user: true,
  instructionRole: undefined,
  tokensMember: 'max_completion_tokens',
  reasoningMember: undefined,
  callIdLength: undefined,
  needsThoughtSignatures: false,
};

/** What the vendor of each format takes, where the catalog says nothing else of a model. */
export const DEFAULT_QUIRKS: Readonly<Record<TargetFormat, Quirks>> = {
  messages: {
    ...COMMON,
    budget: { min: 1_024, max: 32_000 },
    topK: true,
    maxStops: 8_191,
    hosted: ['web_search'],
    structuredOutput: false,
    forcesCalls: false,
    defaultTokens: 16_384,
    cacheMarks: true,
  },
  responses: {
    ...COMMON,
    efforts: ['minimal', 'low', 'medium', 'high'],
    canTurnOffReasoning: false,
    sampling: false,
    maxStops: 0,
    freeformTools: true,
    strictTools: true,
    hosted: ['web_search'],
    minTokens: 16,
    cacheKey: true,
    verbosity: true,
    instructionRole: 'developer',
  },
  chat: {
    ...COMMON,
    efforts: ['low', 'medium', 'high'],
    canTurnOffReasoning: false,
    seed: true,
    penalties: true,
    inputs: ['image', 'document', 'audio'],
    strictTools: true,
    cacheKey: true,
    instructionRole: 'system',
  },
  gemini: {
    ...COMMON,
    budget: { min: 0, max: 24_576 },
    adaptive: true,
    topK: true,
    seed: true,
    penalties: true,
    maxStops: 5,
    inputs: ALL_MEDIA,
    mediaUrls: true,
    hosted: ['web_search', 'web_fetch', 'code', 'maps'],
    parallelChoice: false,
    user: false,
    // Since Gemini 3. What stands for one does no harm before: Google's own agent sends it to every model.
    needsThoughtSignatures: true,
  },
  converse: {
    ...COMMON,
    mediaUrls: false,
    structuredOutput: false,
    parallelChoice: false,
    user: false,
  },
};
