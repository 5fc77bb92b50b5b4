import { Route } from '@weighbridge/contracts';
import { chatFormat } from './chatFormat.ts';
import { messagesFormat } from './messagesFormat.ts';
import type { ResponseFormat } from './responseFormat.ts';
import { responsesFormat } from './responsesFormat.ts';

/** Whose wire an operation speaks: what its errors look like, and how a vendor is shown the credential. */
export type Dialect = 'openai' | 'anthropic';

/** An operation in which a model works. Everything that sets one apart from the others is here. */
export interface Operation {
  /** Below `/v1` here, and below the connector's base URL there. */
  readonly path: string;
  /** What a connector has to serve. */
  readonly route: Route;
  readonly dialect: Dialect;
  /** The top-level fields of the body that the service reads. All others are the vendor's business. */
  readonly fields: ReadonlySet<string>;
  /** Those of them that limit how long the answer gets; undefined where the model writes none. */
  readonly outputLimits: readonly string[] | undefined;
  /** A stream reports its usage only where `stream_options.include_usage` asks for it. */
  readonly needsIncludeUsage: boolean;
  readonly responseFormat: ResponseFormat;
  /** What the vendor charges for. Anything else needs no budget and leaves no event. */
  readonly isBilled: boolean;
  /** The vendor keeps the answer unless the body says `store: false`; whose it is, is recorded. */
  readonly isStored: boolean;
  /** Fields of the body that no answer depends on, nor repeats: requests that differ in them alone are the same. */
  readonly cacheIgnoredFields: ReadonlySet<string>;
}

export const CHAT_COMPLETIONS: Operation = {
  path: '/chat/completions',
  route: Route.CHAT_COMPLETIONS,
  dialect: 'openai',
  fields: new Set([
    'model',
    'stream',
    'stream_options',
    'max_tokens',
    'max_completion_tokens',
    'n',
    'prompt_cache_key',
  ]),
  outputLimits: ['max_tokens', 'max_completion_tokens'],
  needsIncludeUsage: true,
  responseFormat: chatFormat,
  isBilled: true,
  isStored: false,
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
  fields: new Set([
    'model',
    'stream',
    'store',
    'previous_response_id',
    'background',
    'max_output_tokens',
    'prompt_cache_key',
  ]),
  outputLimits: ['max_output_tokens'],
  needsIncludeUsage: false,
  responseFormat: responsesFormat,
  isBilled: true,
  isStored: true,
  // Its answer repeats what other routes only take note of.
  cacheIgnoredFields: new Set(),
};

export const MESSAGES: Operation = {
  path: '/messages',
  route: Route.MESSAGES,
  dialect: 'anthropic',
  fields: new Set(['model', 'stream', 'max_tokens']),
  outputLimits: ['max_tokens'],
  needsIncludeUsage: false,
  responseFormat: messagesFormat,
  isBilled: true,
  isStored: false,
  cacheIgnoredFields: new Set(['metadata']),
};

const COUNT_TOKENS: Operation = {
  ...MESSAGES,
  path: '/messages/count_tokens',
  fields: new Set(['model']),
  outputLimits: undefined,
  isBilled: false,
};

const EMBEDDINGS: Operation = {
  path: '/embeddings',
  route: Route.EMBEDDINGS,
  dialect: 'openai',
  fields: new Set(['model']),
  outputLimits: undefined,
  needsIncludeUsage: false,
  responseFormat: chatFormat,
  isBilled: true,
  isStored: false,
  cacheIgnoredFields: new Set(['user']),
};

/** What is done to a response that a vendor keeps: no model works, so nothing is charged. */
export const STORED_RESPONSE: Operation = {
  ...RESPONSES,
  fields: new Set(),
  outputLimits: undefined,
  isBilled: false,
  isStored: false,
};

/** The map of what models do here. */
export const OPERATIONS: readonly Operation[] = [
  CHAT_COMPLETIONS,
  RESPONSES,
  MESSAGES,
  COUNT_TOKENS,
  EMBEDDINGS,
];
