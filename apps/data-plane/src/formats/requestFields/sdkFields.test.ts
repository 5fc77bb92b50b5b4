import type { Anthropic } from '@anthropic-ai/sdk';
import type { OpenAI } from 'openai';
import { expectTypeOf, it } from 'vitest';
import type { CHAT_FIELDS, CHAT_MESSAGE, CHAT_PARTS, CHAT_TOOLS } from './chat.ts';
import type { COMPLETIONS_FIELDS } from './completions.ts';
import type { EMBEDDINGS_FIELDS } from './embeddings.ts';
import type { Field, Fields, ObjectValue, VariantsValue } from './field.ts';
import type { MESSAGES_BLOCKS, MESSAGES_FIELDS, MESSAGES_MESSAGE, RESULT_BLOCKS } from './messages.ts';
import type { MESSAGES_TOOLS } from './messagesTools.ts';
import type { RESPONSES_FIELDS, RESPONSES_ITEMS, RESPONSES_PARTS } from './responses.ts';
import type { RESPONSES_TOOLS } from './responsesTools.ts';

/*
 * The type-check fails here when an SDK has a field or a variant that its table lacks: class what it can cost, and add it.
 */

type KeysOf<T> = T extends unknown ? keyof T : never;
/** The fields of a request that a table lacks. */
type UnknownFields<Request, Table> = Exclude<KeysOf<Request>, keyof Table>;
type TagsOf<Union> = Union extends { type?: infer Tag } ? Extract<Tag, string> : never;
type VariantsOf<F> = F extends Field<VariantsValue<infer V>> ? V : never;
type FieldsOf<F> = F extends Field<ObjectValue<infer Inner>> ? Inner : Fields;
/** The variants of a union that a table lacks. */
type UnknownVariants<Union, Table> = Exclude<TagsOf<Union>, keyof VariantsOf<Table>>;
/** The fields of variants that the table has, but not with these fields. */
type UnknownInner<Union, Table> = Union extends { type?: infer Tag }
  ? Exclude<keyof Union, keyof FieldsOf<VariantsOf<Table>[Extract<Tag, keyof VariantsOf<Table>>]>>
  : never;
type Items<List> = List extends readonly (infer Item)[] ? Item : never;

it('has every field of a chat completion', () => {
  type Request = OpenAI.ChatCompletionCreateParams;
  expectTypeOf<UnknownFields<Request, typeof CHAT_FIELDS>>().toBeNever();
  type Message = OpenAI.ChatCompletionMessageParam;
  expectTypeOf<UnknownFields<Message, FieldsOf<typeof CHAT_MESSAGE>>>().toBeNever();
  type Part = OpenAI.ChatCompletionContentPart | OpenAI.ChatCompletionContentPartRefusal;
  expectTypeOf<UnknownVariants<Part, typeof CHAT_PARTS>>().toBeNever();
  expectTypeOf<UnknownInner<Part, typeof CHAT_PARTS>>().toBeNever();
  expectTypeOf<UnknownVariants<OpenAI.ChatCompletionTool, typeof CHAT_TOOLS>>().toBeNever();
  expectTypeOf<UnknownInner<OpenAI.ChatCompletionTool, typeof CHAT_TOOLS>>().toBeNever();
});

it('has every field of a response', () => {
  type Request = OpenAI.Responses.ResponseCreateParams;
  expectTypeOf<UnknownFields<Request, typeof RESPONSES_FIELDS>>().toBeNever();
  type Item = OpenAI.Responses.ResponseInputItem;
  expectTypeOf<UnknownVariants<Item, typeof RESPONSES_ITEMS>>().toBeNever();
  expectTypeOf<UnknownInner<Item, typeof RESPONSES_ITEMS>>().toBeNever();
  type Part =
    | OpenAI.Responses.ResponseInputContent
    | Items<OpenAI.Responses.ResponseOutputMessage['content']>
    | Items<OpenAI.Responses.ResponseReasoningItem['summary']>;
  expectTypeOf<UnknownVariants<Part, typeof RESPONSES_PARTS>>().toBeNever();
  expectTypeOf<UnknownInner<Part, typeof RESPONSES_PARTS>>().toBeNever();
  type Tool = OpenAI.Responses.Tool;
  expectTypeOf<UnknownVariants<Tool, typeof RESPONSES_TOOLS>>().toBeNever();
  expectTypeOf<UnknownInner<Tool, typeof RESPONSES_TOOLS>>().toBeNever();
});

it('has every field of a message, and of the beta of messages', () => {
  type Request =
    | Anthropic.MessageCreateParams
    | Anthropic.Beta.MessageCreateParams
    | Anthropic.MessageCountTokensParams
    | Anthropic.Beta.MessageCountTokensParams;
  expectTypeOf<UnknownFields<Request, typeof MESSAGES_FIELDS>>().toBeNever();
  type Message = Anthropic.MessageParam | Anthropic.Beta.BetaMessageParam;
  expectTypeOf<UnknownFields<Message, FieldsOf<typeof MESSAGES_MESSAGE>>>().toBeNever();
  type Block = Anthropic.ContentBlockParam | Anthropic.Beta.BetaContentBlockParam;
  expectTypeOf<UnknownVariants<Block, typeof MESSAGES_BLOCKS>>().toBeNever();
  expectTypeOf<UnknownInner<Block, typeof MESSAGES_BLOCKS>>().toBeNever();
  type Result = Items<(Anthropic.ToolResultBlockParam | Anthropic.Beta.BetaToolResultBlockParam)['content']>;
  expectTypeOf<UnknownVariants<Result, typeof RESULT_BLOCKS>>().toBeNever();
  expectTypeOf<UnknownInner<Result, typeof RESULT_BLOCKS>>().toBeNever();
  type Tool = Anthropic.ToolUnion | Anthropic.Beta.BetaToolUnion;
  expectTypeOf<UnknownVariants<Tool, typeof MESSAGES_TOOLS>>().toBeNever();
  expectTypeOf<UnknownInner<Tool, typeof MESSAGES_TOOLS>>().toBeNever();
});

it('has every field of a completion', () => {
  expectTypeOf<UnknownFields<OpenAI.CompletionCreateParams, typeof COMPLETIONS_FIELDS>>().toBeNever();
});

it('has every field of embeddings', () => {
  expectTypeOf<UnknownFields<OpenAI.EmbeddingCreateParams, typeof EMBEDDINGS_FIELDS>>().toBeNever();
});
