import { Route } from '@weighbridge/contracts';
import type { Format } from '@weighbridge/dialects';
import { chatFormat } from './chatFormat.ts';
import { completionsFormat } from './completionsFormat.ts';
import { converseFormat } from './converseFormat.ts';
import { geminiFormat } from './geminiFormat.ts';
import { itemListFormat } from './itemListFormat.ts';
import { messagesFormat } from './messagesFormat.ts';
import { CHAT_FIELDS } from './requestFields/chat.ts';
import { COMPLETIONS_FIELDS } from './requestFields/completions.ts';
import { CONVERSE_FIELDS } from './requestFields/converse.ts';
import { EMBEDDINGS_FIELDS } from './requestFields/embeddings.ts';
import type { Fields } from './requestFields/field.ts';
import {
  BATCH_EMBED_FIELDS,
  COUNT_CONTENT_FIELDS,
  EMBED_CONTENT_FIELDS,
  GENERATE_CONTENT_FIELDS,
} from './requestFields/gemini.ts';
import { MESSAGES_FIELDS } from './requestFields/messages.ts';
import { RESPONSES_FIELDS } from './requestFields/responses.ts';
import type { ResponseFormat } from './responseFormat.ts';
import { responsesFormat } from './responsesFormat.ts';

/** The family of an API: the form of its errors, and the header for the credential. */
export type Dialect = 'openai' | 'anthropic' | 'gemini';

/** An inference operation. All differences between the operations are declared here. */
export interface Operation {
  /** Below `/v1` of this service, and below the connector's base URL; of the `gemini` dialect, a template below `/v1beta`. */
  readonly path: string;
  /** Of the `gemini` dialect: what follows the model in the path. */
  readonly method?: string;
  /** The route that a connector must serve. */
  readonly route: Route;
  readonly dialect: Dialect;
  /** The format of its bodies; undefined if it is not one that generates, or no client sends it. */
  readonly format: Format | undefined;
  /** What is written for a vendor, if no client sends it. */
  readonly targetFormat?: 'converse';
  /** Connectors that serve another route with a format can answer it: its requests and answers are translated. */
  readonly isTranslated: boolean;
  /** It counts the tokens that a request of its format has. */
  readonly isCounter?: true;
  /** The top-level fields of the body that this service reads. */
  readonly fields: ReadonlySet<string>;
  /** What each field of the body can cost. */
  readonly requestFields: Fields;
  /** Those of `fields` that limit the output; empty if none does, undefined if the model writes none. */
  readonly outputLimits: readonly string[] | undefined;
  /** A stream reports its usage only with `stream_options.include_usage`. */
  readonly needsIncludeUsage: boolean;
  readonly responseFormat: ResponseFormat;
  /** The vendor charges for it. Otherwise it needs no budget and leaves no usage event. */
  readonly isBilled: boolean;
  /** The vendor stores the response unless the body says `store: false`; this service records its owner. */
  readonly isStored: boolean;
  /** Its responses name objects that the vendor keeps, such as output items and containers; this service records their owner. */
  readonly namesObjects: boolean;
  /** Fields that do not influence the response, nor appear in it: the cache key leaves them out. */
  readonly cacheIgnoredFields: ReadonlySet<string>;
}

export const CHAT_COMPLETIONS: Operation = {
  path: '/chat/completions',
  route: Route.CHAT_COMPLETIONS,
  dialect: 'openai',
  format: 'chat',
  isTranslated: true,
  fields: new Set([
    'model',
    'stream',
    'stream_options',
    'max_tokens',
    'max_completion_tokens',
    'n',
    'best_of',
    'prompt_cache_key',
    'service_tier',
    'models',
    'reasoning_effort',
    'reasoning',
    'thinking',
    'tools',
    'modalities',
    'audio',
  ]),
  requestFields: CHAT_FIELDS,
  outputLimits: ['max_tokens', 'max_completion_tokens'],
  needsIncludeUsage: true,
  responseFormat: chatFormat,
  isBilled: true,
  isStored: false,
  namesObjects: false,
  cacheIgnoredFields: new Set([
    'user',
    'safety_identifier',
    'metadata',
    'prompt_cache_key',
    'prompt_cache_retention',
  ]),
};

export const RESPONSES: Operation = {
  path: '/responses',
  route: Route.RESPONSES,
  dialect: 'openai',
  format: 'responses',
  isTranslated: true,
  fields: new Set([
    'model',
    'stream',
    'store',
    'previous_response_id',
    'background',
    'max_output_tokens',
    'max_tool_calls',
    'prompt_cache_key',
    'service_tier',
    'models',
    'reasoning',
    'tools',
  ]),
  requestFields: RESPONSES_FIELDS,
  outputLimits: ['max_output_tokens'],
  needsIncludeUsage: false,
  responseFormat: responsesFormat,
  isBilled: true,
  isStored: true,
  namesObjects: true,
  // A response repeats the fields that other routes only take note of.
  cacheIgnoredFields: new Set(),
};

export const MESSAGES: Operation = {
  path: '/messages',
  route: Route.MESSAGES,
  dialect: 'anthropic',
  format: 'messages',
  isTranslated: true,
  fields: new Set([
    'model',
    'stream',
    'max_tokens',
    'service_tier',
    'speed',
    'inference_geo',
    'fallbacks',
    'thinking',
    'thread',
    'diagnostics',
    'tools',
  ]),
  requestFields: MESSAGES_FIELDS,
  outputLimits: ['max_tokens'],
  needsIncludeUsage: false,
  responseFormat: messagesFormat,
  isBilled: true,
  isStored: false,
  namesObjects: true,
  cacheIgnoredFields: new Set(['metadata']),
};

export const COUNT_TOKENS: Operation = {
  ...MESSAGES,
  path: '/messages/count_tokens',
  isCounter: true,
  fields: new Set(['model']),
  outputLimits: undefined,
  isBilled: false,
  namesObjects: false,
};

const EMBEDDINGS: Operation = {
  path: '/embeddings',
  route: Route.EMBEDDINGS,
  dialect: 'openai',
  format: undefined,
  isTranslated: false,
  fields: new Set(['model', 'service_tier']),
  requestFields: EMBEDDINGS_FIELDS,
  outputLimits: undefined,
  needsIncludeUsage: false,
  responseFormat: chatFormat,
  isBilled: true,
  isStored: false,
  namesObjects: false,
  cacheIgnoredFields: new Set(['user']),
};

/** Gemini's own API (https://ai.google.dev/api). Its model, and whether it streams, are in the path. */
export const GENERATE_CONTENT: Operation = {
  path: '/models/{model}:generateContent',
  method: 'generateContent',
  route: Route.GENERATE_CONTENT,
  dialect: 'gemini',
  format: 'gemini',
  isTranslated: true,
  fields: new Set(),
  requestFields: GENERATE_CONTENT_FIELDS,
  outputLimits: ['maxOutputTokens'],
  needsIncludeUsage: false,
  responseFormat: geminiFormat,
  isBilled: true,
  isStored: false,
  namesObjects: false,
  cacheIgnoredFields: new Set(['labels']),
};

export const COUNT_CONTENT: Operation = {
  ...GENERATE_CONTENT,
  path: '/models/{model}:countTokens',
  isCounter: true,
  method: 'countTokens',
  requestFields: COUNT_CONTENT_FIELDS,
  outputLimits: undefined,
  isBilled: false,
};

const EMBED_CONTENT: Operation = {
  ...GENERATE_CONTENT,
  path: '/models/{model}:embedContent',
  format: undefined,
  isTranslated: false,
  method: 'embedContent',
  route: Route.EMBED_CONTENT,
  requestFields: EMBED_CONTENT_FIELDS,
  outputLimits: undefined,
};

const BATCH_EMBED: Operation = {
  ...EMBED_CONTENT,
  path: '/models/{model}:batchEmbedContents',
  method: 'batchEmbedContents',
  requestFields: BATCH_EMBED_FIELDS,
};

/** The operations of Gemini's dialect. */
export const GEMINI_OPERATIONS: readonly Operation[] = [
  GENERATE_CONTENT,
  COUNT_CONTENT,
  EMBED_CONTENT,
  BATCH_EMBED,
];

const COMPLETIONS: Operation = {
  path: '/completions',
  route: Route.COMPLETIONS,
  dialect: 'openai',
  format: undefined,
  isTranslated: false,
  fields: new Set(['model', 'stream', 'stream_options', 'max_tokens', 'n', 'best_of', 'prompt', 'models']),
  requestFields: COMPLETIONS_FIELDS,
  outputLimits: ['max_tokens'],
  needsIncludeUsage: true,
  responseFormat: completionsFormat,
  isBilled: true,
  isStored: false,
  namesObjects: false,
  cacheIgnoredFields: new Set(['user', 'metadata']),
};

/** Bedrock's Converse. Requests are translated to it; no client sends one. */
export const CONVERSE: Operation = {
  path: '/converse',
  route: Route.CONVERSE,
  dialect: 'openai',
  format: undefined,
  targetFormat: 'converse',
  isTranslated: false,
  fields: new Set(['model', 'stream', 'maxTokens']),
  requestFields: CONVERSE_FIELDS,
  outputLimits: ['maxTokens'],
  needsIncludeUsage: false,
  responseFormat: converseFormat,
  isBilled: true,
  isStored: false,
  namesObjects: false,
  cacheIgnoredFields: new Set(),
};

/** Counts what a response would read; it may name what the vendor stores. */
export const INPUT_TOKENS: Operation = {
  ...RESPONSES,
  path: '/responses/input_tokens',
  isCounter: true,
  fields: new Set(['model', 'previous_response_id']),
  outputLimits: undefined,
  isBilled: false,
  isStored: false,
  namesObjects: false,
};

/**
 * Replaces a conversation by a shorter one, which a model writes (https://platform.openai.com/docs/api-reference/responses/compact).
 * Nothing in the request limits how long it gets.
 */
const COMPACT: Operation = {
  ...RESPONSES,
  path: '/responses/compact',
  isTranslated: false,
  fields: new Set([
    'model',
    'store',
    'previous_response_id',
    'prompt_cache_key',
    'service_tier',
    'reasoning',
    'tools',
  ]),
  outputLimits: [],
};

/** Reads or deletes a response that a vendor stores: no model works, so nothing is charged. */
export const STORED_RESPONSE: Operation = {
  ...RESPONSES,
  isTranslated: false,
  fields: new Set(),
  outputLimits: undefined,
  isBilled: false,
  isStored: false,
  namesObjects: false,
};

/** Lists the input of a stored response. */
export const INPUT_ITEMS: Operation = {
  ...STORED_RESPONSE,
  responseFormat: itemListFormat,
};

/** Every operation that has its own generation route, in the dialects of OpenAI and Anthropic. */
export const OPERATIONS: readonly Operation[] = [
  CHAT_COMPLETIONS,
  RESPONSES,
  MESSAGES,
  COUNT_TOKENS,
  EMBEDDINGS,
  COMPLETIONS,
  INPUT_TOKENS,
  COMPACT,
];
